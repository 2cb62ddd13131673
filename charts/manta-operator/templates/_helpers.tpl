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

{{- /* `true` if the feature gate of Workspaces is on. */ -}}
{{- define "manta.hasWorkspaces" -}}
{{- $on := false -}}
{{- range .Values.featureGates -}}
{{- if eq .name "Workspace" -}}
{{- $on = .enabled -}}
{{- end -}}
{{- end -}}
{{- if $on }}true{{ end -}}
{{- end -}}

{{/* Whether nodes come with NodePools of Karpenter. */}}
{{- define "manta.hasNodePools" -}}
{{- if and (include "manta.hasWorkspaces" .) (eq .Values.workspaces.nodeProvisioner "karpenter") }}true{{ end -}}
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
{{- if include "manta.hasWorkspaces" . }}
{{ (.Files.Get "workspace-rules.yaml" | fromYaml).namespaced | toYaml }}
{{- end }}
{{- range .Values.featureGates }}
{{- if and (eq .name "RayClusterMTLS") .enabled (ne (toString $.Values.mtlsIssuer) "manta") }}
{{ $.Files.Get "certificate-rules.yaml" }}
{{- end }}
{{- if and (eq .name "gatewayAPIInferenceExtension") .enabled (include "manta.hasWorkspaces" $) }}
{{ ($.Files.Get "workspace-rules.yaml" | fromYaml).inferencePools | toYaml }}
{{- end }}
{{- end }}
{{- $rules := .Files.Get "scheduler-rules.yaml" | fromYaml }}
{{- with get $rules (include "manta.batchScheduler" .) }}
# The groups of the batch scheduler.
{{ . | toYaml }}
{{- end }}
{{- end }}

{{- /* The batch scheduler that is chosen, empty if there is none. */ -}}
{{- define "manta.batchScheduler" -}}
{{- $was := false -}}
{{- range .Values.featureGates -}}
{{- if eq .name "KubernetesWAS" -}}
{{- $was = .enabled -}}
{{- end -}}
{{- end -}}
{{- $name := .Values.batchScheduler.name -}}
{{- if and .Values.batchScheduler.enabled $name -}}
{{- fail "batchScheduler.enabled: it means volcano, and batchScheduler.name is set too; keep only the latter" -}}
{{- end -}}
{{- if .Values.batchScheduler.enabled -}}
{{- $name = "volcano" -}}
{{- end -}}
{{- if and $was $name -}}
{{- fail "batchScheduler: the feature gate KubernetesWAS chooses Kubernetes' own scheduler; take one of them out" -}}
{{- end -}}
{{- $was | ternary "KubernetesWAS" $name -}}
{{- end -}}

{{- /* Flags by name. KubeRay's file for them has other names: see configmap.yaml. */ -}}
{{- define "manta.settings" -}}
enable-leader-election: {{ .Values.leaderElectionEnabled }}
reconcile-concurrency: {{ .Values.reconcileConcurrency }}
{{- if not .Values.metrics.enabled }}
metrics-addr: ""
{{- end }}
{{- if .Values.useKubernetesProxy }}
use-kubernetes-proxy: true
{{- end }}
{{- with include "manta.namespaces" . }}
watch-namespace: {{ . | quote }}
{{- end }}
{{- with .Values.kubeClient.qps }}
qps: {{ . | quote }}
{{- end }}
{{- with .Values.kubeClient.burst }}
burst: {{ . | quote }}
{{- end }}
{{- with .Values.batchScheduler.name }}
batch-scheduler: {{ . | quote }}
{{- end }}
{{- if .Values.batchScheduler.enabled }}
enable-batch-scheduler: true
{{- end }}
{{- if eq (toString .Values.mtlsIssuer) "manta" }}
mtls-issuer: {{ .Values.mtlsIssuer }}
{{- end }}
{{- with include "manta.logFile" . }}
log-file-path: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "manta.logFile" -}}
{{- if and .Values.logging.baseDir .Values.logging.fileName -}}
{{- printf "%s/%s" .Values.logging.baseDir .Values.logging.fileName -}}
{{- end -}}
{{- end -}}

{{- define "manta.volumes" -}}
{{- if include "manta.logFile" . }}
- name: logs
  emptyDir: {{ if .Values.logging.sizeLimit }}{sizeLimit: {{ .Values.logging.sizeLimit }}}{{ else }}{}{{ end }}
{{- end }}
{{- if .Values.configuration.enabled }}
- name: configuration
  configMap:
    name: {{ include "manta.fullname" . }}-config
{{- end }}
{{- if .Values.webhook.enabled }}
{{- if .Values.webhook.certManager.enabled }}
- name: webhook
  secret:
    secretName: {{ include "manta.fullname" . }}-webhook
{{- end }}
- name: tmp
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "manta.volumeMounts" -}}
{{- if include "manta.logFile" . }}
- name: logs
  mountPath: {{ .Values.logging.baseDir | quote }}
{{- end }}
{{- if .Values.configuration.enabled }}
- name: configuration
  mountPath: /etc/kuberay
  readOnly: true
{{- end }}
{{- if .Values.webhook.enabled }}
- name: tmp
  mountPath: /tmp
{{- if .Values.webhook.certManager.enabled }}
- name: webhook
  mountPath: /tmp/k8s-webhook-server/serving-certs
  readOnly: true
{{- end }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The environment of the operator. */ -}}
{{- define "manta.env" -}}
{{- $env := list -}}
{{- if .Values.webhook.enabled -}}
{{- $env = append $env (dict "name" "ENABLE_WEBHOOKS" "value" "true") -}}
{{- $env = append $env (dict "name" "MANTA_WEBHOOK_PORT" "value" (toString .Values.webhook.port)) -}}
{{- if not .Values.webhook.certManager.enabled -}}
{{- $env = append $env (dict "name" "MANTA_WEBHOOK_SERVICE" "value" (printf "%s-webhook" (include "manta.fullname" .))) -}}
{{- end -}}
{{- end -}}
{{- if .Values.watchNodes -}}
{{- $env = append $env (dict "name" "WATCH_NODES" "value" "true") -}}
{{- end -}}
{{- if include "manta.hasWorkspaces" . -}}
{{- with .Values.workspaces -}}
{{- range $name, $value := dict "CLOUD_PROVIDER" .cloudProvider "DEFAULT_NODE_IMAGE_FAMILY" .defaultNodeImageFamily "HF_ENDPOINT" .huggingFace.endpoint "HF_HUB_OFFLINE" (.huggingFace.offline | ternary "1" "") "NODE_PROVISIONER" .nodeProvisioner "PRESET_REGISTRY_NAME" .presetRegistry -}}
{{- if $value -}}
{{- $env = append $env (dict "name" $name "value" $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if include "manta.hasNodePools" . -}}
{{- with .Values.workspaces.karpenter -}}
{{- $env = append $env (dict "name" "KARPENTER_NODE_CLASS_GROUP" "value" .group) -}}
{{- $env = append $env (dict "name" "KARPENTER_NODE_CLASS_KIND" "value" .kind) -}}
{{- $env = append $env (dict "name" "KARPENTER_NODE_CLASS_VERSION" "value" .version) -}}
{{- $env = append $env (dict "name" "KARPENTER_NODE_CLASS_RESOURCE_NAME" "value" .resourceName) -}}
{{- $env = append $env (dict "name" "KARPENTER_NODE_CLASSES" "value" (toJson .nodeClasses)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with concat $env (default list .Values.env) (default list .Values.extraEnv) -}}
{{ toYaml . }}
{{- end -}}
{{- end -}}
