{{/*
The name of what belongs to the release. Longer names than 52 would not leave room: the label of a StatefulSet's revision adds 11 characters, and labels end at
63. A long name is cut and gets a hash of the whole, so that two that begin alike stay two. "neso.named" adds an ending to it.
*/}}
{{- define "neso.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $chart := default .Chart.Name .Values.nameOverride -}}
{{- $name = ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (contains $chart .Release.Name) -}}
{{- end -}}
{{- include "neso.short" (list $name 52) -}}
{{- end -}}

{{- define "neso.short" -}}
{{- $name := index . 0 -}}{{- $max := int (index . 1) -}}
{{- if gt (len $name) $max -}}
{{- printf "%s-%s" ($name | trunc (int (sub $max 9)) | trimSuffix "-" | trimSuffix "." | trimSuffix "_") (sha256sum $name | trunc 8) -}}
{{- else -}}{{- $name | trimSuffix "-" -}}{{- end -}}
{{- end -}}

{{- define "neso.named" -}}
{{- include "neso.short" (list (printf "%s-%s" (include "neso.fullname" (index . 0)) (index . 1)) 63) -}}
{{- end -}}

{{- define "neso.selectorLabels" -}}
app.kubernetes.io/name: {{ include "neso.short" (list (default .Chart.Name .Values.nameOverride) 63) }}
app.kubernetes.io/instance: {{ include "neso.short" (list .Release.Name 63) }}
{{- end -}}

{{/* Of the pod of `helm test`, in the place of the name by which services and budgets know the server's pods. */}}
{{- define "neso.testName" -}}
{{- include "neso.short" (list (printf "%s-test" (default .Chart.Name .Values.nameOverride)) 63) -}}
{{- end -}}

{{- define "neso.tag" -}}
{{- .Values.image.tag | default .Chart.AppVersion -}}
{{- end -}}

{{- define "neso.labels" -}}
{{- $own := dict
  "helm.sh/chart" (include "neso.short" (list (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") 63))
  "app.kubernetes.io/version" (include "neso.short" (list (include "neso.tag" .) 63))
  "app.kubernetes.io/managed-by" .Release.Service -}}
{{- toYaml (mergeOverwrite $own .Values.commonLabels (include "neso.selectorLabels" . | fromYaml)) -}}
{{- end -}}

{{/* Metadata of an object: (list $ name annotations labels) */}}
{{- define "neso.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- $labels := include "neso.labels" $root | fromYaml -}}
  {{- if gt (len .) 3 }}{{- $labels = mergeOverwrite (deepCopy (index . 3)) $labels }}{{- end }}
  {{- toYaml $labels | nindent 2 }}
{{- $annotations := deepCopy $root.Values.commonAnnotations -}}
{{- if gt (len .) 2 }}{{- $annotations = mergeOverwrite $annotations (index . 2) }}{{- end }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "neso.image" -}}
{{- if .Values.image.digest -}}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}{{ .Values.image.repository }}:{{ include "neso.tag" . }}{{- end -}}
{{- end -}}

{{- define "neso.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}{{ .Values.serviceAccount.name | default (include "neso.fullname" .) }}
{{- else -}}{{ .Values.serviceAccount.name | default "default" }}{{- end -}}
{{- end -}}

{{- define "neso.tlsSecret" -}}
{{- .Values.tls.secretName | default (include "neso.named" (list . "tls")) -}}
{{- end -}}

{{- define "neso.claim" -}}
{{- .Values.models.pvc.claimName | default (include "neso.named" (list . "models")) -}}
{{- end -}}

{{- define "neso.authSecret" -}}
{{- .Values.auth.secretName | default (include "neso.named" (list . "keys")) -}}
{{- end -}}

{{- define "neso.address" -}}
{{- if .Values.server.address -}}{{ .Values.server.address }}
{{- else if or (has "IPv6" .Values.service.ipFamilies) (has .Values.service.ipFamilyPolicy (list "PreferDualStack" "RequireDualStack")) -}}::
{{- else -}}0.0.0.0{{- end -}}
{{- end -}}

{{/* The seconds that a pod needs to leave. */}}
{{- define "neso.leaving" -}}
{{- with .Values.shutdown -}}{{- add .preStopSeconds .drainGraceSeconds .exitTimeoutSeconds -}}{{- end -}}
{{- end -}}

{{/* A quantity as a number of bytes, or what one like "1e3" has; 0 for what is not a plain quantity. */}}
{{- define "neso.bytes" -}}
{{- $q := toString . -}}
{{- $unit := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- if regexMatch "^[0-9]+(k|M|G|T|Ki|Mi|Gi|Ti)?$" $q -}}
{{- mul (regexFind "^[0-9]+" $q | int64) (get $unit (regexFind "[a-zA-Z]*$" $q)) -}}
{{- else -}}0{{- end -}}
{{- end -}}

{{/* How replicas come and go: quickly up, since queues are bounded; slowly down, since load comes back. */}}
{{- define "neso.behavior" -}}
{{- if . -}}{{- toYaml . -}}{{- else -}}
scaleUp:
  stabilizationWindowSeconds: 0
  selectPolicy: Max
  policies: [{type: Percent, value: 100, periodSeconds: 15}, {type: Pods, value: 4, periodSeconds: 15}]
scaleDown:
  stabilizationWindowSeconds: 300
  policies: [{type: Percent, value: 25, periodSeconds: 60}, {type: Pods, value: 1, periodSeconds: 60}]
{{- end -}}
{{- end -}}

{{/* The requests that the release has in hand, the mean of a minute: seconds that requests have been in the server, of each second. */}}
{{- define "neso.running" -}}
sum(rate(nv_inference_request_duration_us{namespace="{{ .Release.Namespace }}",service="{{ include "neso.fullname" . }}"}[1m])) / 1e6
{{- end -}}
