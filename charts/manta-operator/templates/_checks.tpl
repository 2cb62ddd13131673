{{- /* Values that the operator would refuse at start, or that contradict each other. */ -}}
{{- define "manta.checkValues" -}}
{{- $seen := dict -}}
{{- range .Values.featureGates -}}
{{- if and (hasKey $seen .name) (ne (get $seen .name) .enabled) -}}
{{- fail (printf "featureGates: %s is both enabled and disabled; keep one of them" .name) -}}
{{- end -}}
{{- $_ := set $seen .name .enabled -}}
{{- end -}}
{{- range $name := list "debugPort" "pagePort" -}}
{{- $port := int (get $.Values $name) -}}
{{- if has $port (list 8080 8082) -}}
{{- fail (printf "%s: %d is the port of the metrics or the probes; choose another" $name $port) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.pagePort (eq (int .Values.pagePort) (int .Values.debugPort)) -}}
{{- fail (printf "pagePort: %d is debugPort, too; choose another" (int .Values.pagePort)) -}}
{{- end -}}
{{- range .Values.extraArgs -}}
{{- if regexMatch "^--?watch-namespace" . -}}
{{- fail (printf "extraArgs: %s would come without rights there; set watchNamespace instead" .) -}}
{{- end -}}
{{- end -}}
{{- range concat (default list .Values.env) (default list .Values.extraEnv) -}}
{{- if and (hasKey . "value") (hasKey . "valueFrom") -}}
{{- fail (printf "env: %s has a value and a valueFrom; keep one of them" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* A second operator would undo what the first one does. It is looked for where who installs may
look: everywhere if the release gets a ClusterRole, else in its namespace. `helm template` sees nothing. */ -}}
{{- define "manta.checkOtherOperators" -}}
{{- $own := compact (splitList "," (include "manta.namespaces" .)) -}}
{{- $where := and .Values.rbacEnable (not $own) | ternary "" .Release.Namespace -}}
{{- $found := list -}}
{{- if not .Values.allowOtherOperators -}}
{{- $found = default list (lookup "apps/v1" "Deployment" $where "").items -}}
{{- end -}}
{{- range $found -}}
{{- $labels := default dict .metadata.labels -}}
{{- $notes := default dict .metadata.annotations -}}
{{- $ours := and (eq (get $notes "meta.helm.sh/release-name") $.Release.Name) (eq .metadata.namespace $.Release.Namespace) -}}
{{- $name := get $labels "app.kubernetes.io/name" -}}
{{- $kuberay := or (eq $name "kuberay-operator") (eq (get $labels "app.kubernetes.io/component") "kuberay-operator") -}}
{{- if and (or $kuberay (eq $name "manta-operator")) (not $ours) (gt (int .spec.replicas) 0) -}}
{{- $words := list -}}
{{- range .spec.template.spec.containers -}}
{{- $words = concat $words (default list .command) (default list .args) -}}
{{- end -}}
{{- $flag := regexFind "-watch-namespace[= ][^ ]+" (join " " $words) -}}
{{- $theirs := compact (splitList "," (regexReplaceAll "^-watch-namespace[= ]" $flag "")) -}}
{{- $shared := or (not $own) (not $theirs) -}}
{{- range $own -}}
{{- $shared = or $shared (has . $theirs) -}}
{{- end -}}
{{- if $shared -}}
{{- $remedy := $kuberay | ternary "move its clusters with `manta take-over`, or scale it to 0" "uninstall it, or scale it to 0" -}}
{{- fail (printf "Deployment %s/%s is an operator of the same namespaces, and two would undo each other's work: %s; watchNamespace limits each to namespaces of its own, allowOtherOperators=true installs nevertheless" .metadata.namespace .metadata.name $remedy) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
