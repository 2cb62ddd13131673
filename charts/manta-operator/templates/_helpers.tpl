{{- define "manta.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "manta.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "manta.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "manta.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "manta.selector" -}}
app.kubernetes.io/name: {{ include "manta.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "manta.labels" -}}
{{ include "manta.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "manta.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "manta.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* The namespaces to watch, separated by commas; empty means all. */ -}}
{{- define "manta.namespaces" -}}
{{- if .Values.watchNamespace -}}
{{- join "," .Values.watchNamespace -}}
{{- else if .Values.singleNamespaceInstall -}}
{{- .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{- /* `A=true,B=false` from the list of gates. */ -}}
{{- define "manta.featureGates" -}}
{{- $pairs := list -}}
{{- range .Values.featureGates -}}
{{- $pairs = append $pairs (printf "%s=%t" .name .enabled) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}

{{/* What the operator may do. */}}
{{- define "manta.rules" -}}
{{ .Files.Get "rules.yaml" }}
{{- if .Values.useKubernetesProxy }}
# Ray's dashboards.
- apiGroups: [""]
  resources: [services/proxy]
  verbs: [get, create]
{{- end }}
{{- end }}
