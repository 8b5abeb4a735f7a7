{{/* The command line of the server. */}}
{{- define "neso.args" -}}
{{- $v := .Values -}}{{- $address := include "neso.address" . -}}
- serve
{{- if eq $v.models.source "bucket" }}
{{- range $v.models.bucket.uris }}
- {{ printf "--model-repository=%v" . | quote }}
{{- end }}
- --repository-cache-directory=/var/cache/neso
{{- else }}
- {{ printf "--model-repository=%v" $v.models.path | quote }}
{{- end }}
- {{ printf "--model-control-mode=%v" $v.models.controlMode | quote }}
{{- if eq $v.models.controlMode "poll" }}
- {{ printf "--repository-poll-secs=%v" $v.models.pollSeconds | quote }}
{{- end }}
{{- range $v.models.load }}
- {{ printf "--load-model=%v" . | quote }}
{{- end }}
- {{ printf "--exit-on-error=%v" $v.models.exitOnError | quote }}
{{- if not (kindIs "invalid" $v.models.strictReadiness) }}
- {{ printf "--strict-readiness=%v" $v.models.strictReadiness | quote }}
{{- else if ne $v.models.controlMode "none" }}
- --strict-readiness=false
{{- end }}
- {{ printf "--http-address=%v" $address | quote }}
- {{ printf "--http-port=%v" $v.server.ports.http | quote }}
- {{ printf "--grpc-address=%v" $address | quote }}
- {{ printf "--grpc-port=%v" $v.server.ports.grpc | quote }}
- {{ printf "--metrics-address=%v" $address | quote }}
- {{ printf "--metrics-port=%v" $v.server.ports.metrics | quote }}
- {{ printf "--drain-grace-secs=%v" $v.shutdown.drainGraceSeconds | quote }}
- {{ printf "--exit-timeout-secs=%v" $v.shutdown.exitTimeoutSeconds | quote }}
{{- with $v.server.httpMaxConnectionAgeSeconds }}
- {{ printf "--http-max-connection-age-secs=%v" . | quote }}
{{- end }}
{{- with $v.server.grpcMaxConnectionAgeSeconds }}
- {{ printf "--grpc-max-connection-age=%v" (mul . 1000) | quote }}
{{- end }}
{{- with $v.server.instanceHangTimeoutSeconds }}
- {{ printf "--instance-hang-timeout=%v" . | quote }}
{{- end }}
- {{ printf "--log-format=%v" $v.server.logFormat | quote }}
- {{ printf "--log-verbose=%v" $v.server.logVerbose | quote }}
{{- if or $v.auth.secretName $v.auth.keys }}
- {{ printf "--auth-file=/etc/neso/auth/%v" (ternary $v.auth.secretKey "keys.json" (ne $v.auth.secretName "")) | quote }}
{{- end }}
{{- if $v.tls.enabled }}
{{- if $v.tls.http }}
- --http-tls-cert=/etc/neso/tls/tls.crt
- --http-tls-key=/etc/neso/tls/tls.key
{{- if and $v.tls.clientCA.secretName $v.tls.clientCA.http }}
- {{ printf "--http-tls-client-ca=/etc/neso/client-ca/%v" $v.tls.clientCA.key | quote }}
{{- end }}
{{- end }}
{{- if $v.tls.grpc }}
- --grpc-use-ssl=true
- --grpc-server-cert=/etc/neso/tls/tls.crt
- --grpc-server-key=/etc/neso/tls/tls.key
{{- if and $v.tls.clientCA.secretName $v.tls.clientCA.grpc }}
- --grpc-use-ssl-mutual=true
- {{ printf "--grpc-root-cert=/etc/neso/client-ca/%v" $v.tls.clientCA.key | quote }}
{{- end }}
{{- end }}
{{- if $v.tls.metrics }}
- --metrics-tls-cert=/etc/neso/tls/tls.crt
- --metrics-tls-key=/etc/neso/tls/tls.key
{{- end }}
{{- end }}
{{- range $name, $value := $v.server.options }}
{{- range (kindIs "slice" $value | ternary $value (list $value)) }}
- {{ printf "--%s=%s" $name (include "neso.plain" .) | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A value as it was written: Helm reads whole numbers as floating-point ones. */}}
{{- define "neso.plain" -}}
{{- if kindIs "float64" . -}}{{- if eq (floor .) . -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{/* How a probe asks: (list $ "live"|"ready"). With client certificates the kubelet has none to show: the server's own command asks, or the port is tried. */}}
{{- define "neso.probe" -}}
{{- $root := index . 0 -}}{{- $what := index . 1 -}}{{- $tls := $root.Values.tls -}}
{{- if and $tls.enabled $tls.http $tls.clientCA.secretName $tls.clientCA.http -}}
{{- if eq $what "ready" -}}
exec:
  command: [/usr/bin/neso, ready, --url, "https://localhost:{{ $root.Values.server.ports.http }}", --cacert, /etc/neso/probe/ca.crt,
    --cert, /etc/neso/probe/tls.crt, --cert-key, /etc/neso/probe/tls.key]
{{- else -}}
tcpSocket: {port: http}
{{- end -}}
{{- else -}}
httpGet: {path: /v2/health/{{ $what }}, port: http{{ if and $tls.enabled $tls.http }}, scheme: HTTPS{{ end }}}
{{- end -}}
{{- end -}}
