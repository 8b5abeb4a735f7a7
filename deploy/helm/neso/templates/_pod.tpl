{{/* The pod, of a Deployment or a StatefulSet. */}}
{{- define "neso.pod" -}}
{{- $root := . -}}{{- $v := .Values -}}
metadata:
  labels:
    {{- toYaml (mergeOverwrite (deepCopy $v.podLabels) (include "neso.labels" . | fromYaml)) | nindent 4 }}
  annotations:
    kubectl.kubernetes.io/default-container: neso
    {{- with mergeOverwrite (deepCopy $v.commonAnnotations) $v.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "neso.serviceAccountName" . }}
  automountServiceAccountToken: {{ $v.serviceAccount.automountToken }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ if kindIs "invalid" $v.shutdown.terminationGracePeriodSeconds }}{{ add 10 (include "neso.leaving" . | int) }}{{ else }}{{ $v.shutdown.terminationGracePeriodSeconds }}{{ end }}
  {{- with $v.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- range $name := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "priorityClassName" "runtimeClassName" "schedulerName" "dnsConfig" "hostAliases" }}
  {{- with get $v $name }}
  {{- toYaml (dict $name .) | nindent 2 }}
  {{- end }}
  {{- end }}
  topologySpreadConstraints:
    {{- include "neso.spread" . | trim | nindent 4 }}
  {{- if or (eq $v.models.source "initContainer") $v.extraInitContainers }}
  initContainers:
    {{- if eq $v.models.source "initContainer" }}
    {{- with $v.models.initContainer }}
    - name: models
      image: {{ .image | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      {{- range $name := list "command" "args" "env" "envFrom" "resources" }}
      {{- with get $v.models.initContainer $name }}
      {{- toYaml (dict $name .) | nindent 6 }}
      {{- end }}
      {{- end }}
      terminationMessagePolicy: FallbackToLogsOnError
      securityContext:
        {{- toYaml $v.securityContext | nindent 8 }}
      volumeMounts:
        - {name: models, mountPath: {{ $v.models.path }}}
        - {name: tmp, mountPath: /tmp}
    {{- end }}
    {{- end }}
    {{- with $v.extraInitContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  containers:
    - {{ include "neso.container" . | trim | nindent 6 | trim }}
    {{- with $v.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "neso.volumes" . | nindent 4 }}
    {{- with $v.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- define "neso.container" -}}
{{- $v := .Values -}}{{- $m := $v.models }}
name: neso
image: {{ include "neso.image" . | quote }}
imagePullPolicy: {{ $v.image.pullPolicy }}
args:
  {{- include "neso.args" . | nindent 2 }}
env:
  {{- include "neso.env" . | nindent 2 }}
{{- if or $v.envFrom (and (eq $m.source "bucket") $m.bucket.secretName) }}
envFrom:
  {{- if and (eq $m.source "bucket") $m.bucket.secretName }}
  - secretRef: {name: {{ $m.bucket.secretName }}}
  {{- end }}
  {{- with $v.envFrom }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
ports:
  - {name: http, containerPort: {{ $v.server.ports.http }}, protocol: TCP}
  - {name: grpc, containerPort: {{ $v.server.ports.grpc }}, protocol: TCP}
  - {name: metrics, containerPort: {{ $v.server.ports.metrics }}, protocol: TCP}
{{- range $kind, $what := dict "startup" "live" "liveness" "live" "readiness" "ready" }}
{{- $p := get $v.probes $kind }}
{{- if $p.enabled }}
{{ $kind }}Probe:
  {{- include "neso.probe" (list $ $what) | nindent 2 }}
  periodSeconds: {{ $p.periodSeconds }}
  timeoutSeconds: {{ $p.timeoutSeconds }}
  failureThreshold: {{ $p.failureThreshold }}
{{- end }}
{{- end }}
{{- if $v.shutdown.preStopSeconds }}
lifecycle:
  preStop: {sleep: {seconds: {{ $v.shutdown.preStopSeconds }}}}
{{- end }}
# What the server says last is in the pod's status: which model did not load, and why.
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  {{- toYaml $v.securityContext | nindent 2 }}
resources:
  {{- toYaml $v.resources | nindent 2 }}
volumeMounts:
  {{- include "neso.mounts" . | nindent 2 }}
  {{- with $v.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "neso.env" -}}
{{- $b := .Values.models.bucket -}}
- {name: HOME, value: /tmp}
{{- if and (eq .Values.models.source "bucket") $b.credentials.secretName }}
- {name: TRITON_CLOUD_CREDENTIAL_PATH, value: /etc/neso/cloud/{{ $b.credentials.key }}}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "neso.mounts" -}}
{{- $v := .Values -}}{{- $m := $v.models -}}
- {name: tmp, mountPath: /tmp}
{{- if $v.shm.enabled }}
- {name: shm, mountPath: /dev/shm}
{{- end }}
{{- if eq $m.source "pvc" }}
- {name: models, mountPath: {{ $m.path }}, readOnly: {{ $m.pvc.readOnly }}{{ with $m.pvc.subPath }}, subPath: {{ . | quote }}{{ end }}}
{{- else if eq $m.source "imageVolume" }}
- {name: models, mountPath: {{ $m.path }}, readOnly: true{{ with $m.imageVolume.subPath }}, subPath: {{ . | quote }}{{ end }}}
{{- else if eq $m.source "initContainer" }}
- {name: models, mountPath: {{ $m.path }}, readOnly: true}
{{- else if eq $m.source "bucket" }}
- {name: cache, mountPath: /var/cache/neso}
{{- if $m.bucket.credentials.secretName }}
- {name: cloud, mountPath: /etc/neso/cloud, readOnly: true}
{{- end }}
{{- end }}
{{- if or $v.auth.secretName $v.auth.keys }}
- {name: auth, mountPath: /etc/neso/auth, readOnly: true}
{{- end }}
{{- if $v.tls.enabled }}
- {name: tls, mountPath: /etc/neso/tls, readOnly: true}
{{- if $v.tls.clientCA.secretName }}
- {name: client-ca, mountPath: /etc/neso/client-ca, readOnly: true}
{{- end }}
{{- if $v.probes.clientSecretName }}
- {name: probe, mountPath: /etc/neso/probe, readOnly: true}
{{- end }}
{{- end }}
{{- end -}}

{{- define "neso.volumes" -}}
{{- $v := .Values -}}{{- $m := $v.models -}}
- {name: tmp, emptyDir: {sizeLimit: {{ $v.tmp.size }}}}
{{- if $v.shm.enabled }}
- {name: shm, emptyDir: {medium: Memory, sizeLimit: {{ $v.shm.size }}}}
{{- end }}
{{- if eq $m.source "pvc" }}
- {name: models, persistentVolumeClaim: {claimName: {{ include "neso.claim" . }}, readOnly: {{ $m.pvc.readOnly }}}}
{{- else if eq $m.source "imageVolume" }}
- {name: models, image: {reference: {{ $m.imageVolume.reference | quote }}, pullPolicy: {{ $m.imageVolume.pullPolicy }}}}
{{- else if eq $m.source "initContainer" }}
- {name: models, emptyDir: {sizeLimit: {{ $m.initContainer.size }}}}
{{- else if eq $m.source "bucket" }}
{{- if not $m.bucket.cache.persistent }}
- {name: cache, emptyDir: {sizeLimit: {{ $m.bucket.cache.size }}}}
{{- end }}
{{- if $m.bucket.credentials.secretName }}
- {name: cloud, secret: {secretName: {{ $m.bucket.credentials.secretName }}, defaultMode: 0440}}
{{- end }}
{{- end }}
{{- if or $v.auth.secretName $v.auth.keys }}
- {name: auth, secret: {secretName: {{ include "neso.authSecret" . }}, defaultMode: 0440}}
{{- end }}
{{- if $v.tls.enabled }}
- {name: tls, secret: {secretName: {{ include "neso.tlsSecret" . }}, defaultMode: 0440}}
{{- with $v.tls.clientCA.secretName }}
- {name: client-ca, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- with $v.probes.clientSecretName }}
- {name: probe, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- end }}
{{- end -}}

{{- define "neso.spread" -}}
{{- $labels := include "neso.selectorLabels" . | fromYaml -}}
{{- $given := .Values.topologySpreadConstraints -}}
{{- if not $given -}}
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" -}}
{{- $given = append $given (dict "maxSkew" 1 "topologyKey" $key "whenUnsatisfiable" "ScheduleAnyway") -}}
{{- end -}}
{{- end -}}
{{- range $given }}
- {{ toYaml (merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" $labels))) | nindent 2 | trim }}
{{- end -}}
{{- end -}}
