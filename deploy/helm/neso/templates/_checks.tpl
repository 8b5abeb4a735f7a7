{{/* What contradicts itself: all of it is said at once, before anything is installed. Each line names the values. */}}
{{- define "neso.checks" -}}
{{- $c := dict "faults" list "root" . -}}
{{- range list "names" "models" "server" "identity" "scaling" "network" }}
{{- include (printf "neso.checks.%s" .) $c }}
{{- end }}
{{- with $c.faults }}{{- fail (printf "values that contradict each other:\n- %s" (join "\n- " .)) }}{{- end }}
{{- end -}}

{{/* (list $c "text") adds a fault. */}}
{{- define "neso.fault" -}}
{{- $c := index . 0 -}}{{- $_ := set $c "faults" (append $c.faults (index . 1)) -}}
{{- end -}}

{{- define "neso.checks.names" -}}
{{- $name := include "neso.fullname" .root -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- include "neso.fault" (list . (printf "the name %q: a Service's begins with a letter, and has a-z, 0-9 and '-': set fullnameOverride" $name)) -}}
{{- end -}}
{{- end -}}

{{- define "neso.checks.models" -}}
{{- $v := .root.Values -}}{{- $m := $v.models -}}
{{- if and (eq $m.source "pvc") (not $m.pvc.claimName) (not $m.pvc.create) -}}
{{- include "neso.fault" (list . "models.source is pvc: set models.pvc.claimName, or models.pvc.create with models.pvc.size") -}}
{{- end -}}
{{- if and $m.pvc.create $m.pvc.claimName -}}
{{- include "neso.fault" (list . "models.pvc.create makes a claim and models.pvc.claimName names one: only one of the two") -}}
{{- end -}}
{{- if and $m.pvc.create (not $m.pvc.size) -}}
{{- include "neso.fault" (list . "models.pvc.create needs models.pvc.size, such as 10Gi") -}}
{{- end -}}
{{- if and $m.pvc.create (ne $m.source "pvc") -}}
{{- include "neso.fault" (list . (printf "models.pvc.create needs models.source pvc, which is %s" $m.source)) -}}
{{- end -}}
{{- $many := or (gt (int $v.replicaCount) 1) $v.hpa.enabled $v.keda.enabled -}}
{{- if and (eq $m.source "pvc") (has "ReadWriteOncePod" $m.pvc.accessModes) $m.pvc.create $many -}}
{{- include "neso.fault" (list . "models.pvc.accessModes has ReadWriteOncePod, which lets one pod have the volume, and more than one is asked for") -}}
{{- end -}}
{{- if and (eq $m.source "bucket") (not $m.bucket.uris) -}}
{{- include "neso.fault" (list . "models.source is bucket: set models.bucket.uris, such as [s3://bucket/models]") -}}
{{- end -}}
{{- if and $m.bucket.uris (ne $m.source "bucket") -}}
{{- include "neso.fault" (list . (printf "models.bucket.uris needs models.source bucket, which is %s" $m.source)) -}}
{{- end -}}
{{- if and $m.bucket.secretName $m.bucket.credentials.secretName -}}
{{- include "neso.fault" (list . "models.bucket.secretName and models.bucket.credentials.secretName: the file stands in for the variables, set only one") -}}
{{- end -}}
{{- if and $m.bucket.cache.persistent (ne $v.kind "StatefulSet") -}}
{{- include "neso.fault" (list . "models.bucket.cache.persistent needs kind StatefulSet, whose pods have volumes of their own") -}}
{{- end -}}
{{- if and (eq $m.source "imageVolume") (not $m.imageVolume.reference) -}}
{{- include "neso.fault" (list . "models.source is imageVolume: set models.imageVolume.reference") -}}
{{- end -}}
{{- if and (eq $m.source "imageVolume") (semverCompare "<1.33.0-0" .root.Capabilities.KubeVersion.Version) -}}
{{- include "neso.fault" (list . (printf "models.source imageVolume needs Kubernetes 1.33 or newer, this is %s" .root.Capabilities.KubeVersion.Version)) -}}
{{- end -}}
{{- if and (eq $m.source "initContainer") (not $m.initContainer.image) -}}
{{- include "neso.fault" (list . "models.source is initContainer: set models.initContainer.image") -}}
{{- end -}}
{{- if and $m.load (ne $m.controlMode "explicit") -}}
{{- include "neso.fault" (list . (printf "models.load needs models.controlMode explicit, which is %s" $m.controlMode)) -}}
{{- end -}}
{{- end -}}

{{- define "neso.checks.server" -}}
{{- $c := . -}}{{- $v := .root.Values -}}
{{- range $name, $_ := $v.server.options -}}
{{- if has $name (list "model-repository" "model-store" "model-control-mode" "repository-poll-secs" "load-model" "exit-on-error" "strict-readiness" "http-address" "http-port"
  "grpc-address" "grpc-port" "metrics-address" "metrics-port" "drain-grace-secs" "exit-timeout-secs" "http-max-connection-age-secs" "grpc-max-connection-age"
  "instance-hang-timeout" "log-format" "log-verbose" "auth-file" "http-tls-cert" "http-tls-key" "http-tls-client-ca" "grpc-use-ssl" "grpc-server-cert"
  "grpc-server-key" "grpc-use-ssl-mutual" "grpc-root-cert" "metrics-tls-cert" "metrics-tls-key" "repository-cache-directory") -}}
{{- include "neso.fault" (list $c (printf "server.options has %s, which the chart gives from a value of its own" $name)) -}}
{{- end -}}
{{- end -}}
{{- if or (eq (int $v.server.ports.http) (int $v.server.ports.grpc)) (eq (int $v.server.ports.http) (int $v.server.ports.metrics)) (eq (int $v.server.ports.grpc) (int $v.server.ports.metrics)) -}}
{{- include "neso.fault" (list . "server.ports: http, grpc and metrics need ports of their own") -}}
{{- end -}}
{{- if or (eq (int $v.service.ports.http) (int $v.service.ports.grpc)) (eq (int $v.service.ports.http) (int $v.service.ports.metrics)) (eq (int $v.service.ports.grpc) (int $v.service.ports.metrics)) -}}
{{- include "neso.fault" (list . "service.ports: http, grpc and metrics need ports of their own") -}}
{{- end -}}
{{- $grace := $v.shutdown.terminationGracePeriodSeconds -}}{{- $needed := include "neso.leaving" .root | int -}}
{{- if and (not (kindIs "invalid" $grace)) (le (int $grace) $needed) -}}
{{- include "neso.fault" (list . (printf "shutdown.terminationGracePeriodSeconds %d: a pod needs more than the %d seconds of preStopSeconds, drainGraceSeconds and exitTimeoutSeconds together, else requests are lost" (int $grace) $needed)) -}}
{{- end -}}
{{- $limit := include "neso.bytes" (dig "limits" "memory" "" $v.resources) | int64 -}}{{- $shm := include "neso.bytes" $v.shm.size | int64 -}}
{{- if and $v.shm.enabled $limit (ge $shm $limit) -}}
{{- include "neso.fault" (list . (printf "shm.size %s counts as the container's memory, whose limit is %s: make it smaller" $v.shm.size (toString $v.resources.limits.memory))) -}}
{{- end -}}
{{- end -}}

{{- define "neso.checks.identity" -}}
{{- $v := .root.Values -}}{{- $t := $v.tls -}}
{{- if and $v.auth.secretName $v.auth.keys -}}
{{- include "neso.fault" (list . "auth.secretName and auth.keys: the keys are in a Secret of yours or in the values, set only one") -}}
{{- end -}}
{{- if and $t.enabled (not $t.secretName) (not $t.certManager.enabled) -}}
{{- include "neso.fault" (list . "tls.enabled: set tls.secretName, or tls.certManager.enabled") -}}
{{- end -}}
{{- if and $t.secretName $t.certManager.enabled -}}
{{- include "neso.fault" (list . "tls.secretName and tls.certManager.enabled: the certificate is in a Secret of yours or made, set only one") -}}
{{- end -}}
{{- if and $t.certManager.enabled (not $t.certManager.issuerRef.name) -}}
{{- include "neso.fault" (list . "tls.certManager.enabled needs tls.certManager.issuerRef.name") -}}
{{- end -}}
{{- if and (not $t.enabled) (or $t.secretName $t.certManager.enabled $t.clientCA.secretName) -}}
{{- include "neso.fault" (list . "tls.enabled is false, and tls.secretName, tls.certManager or tls.clientCA are set") -}}
{{- end -}}
{{- if and $t.clientCA.secretName $t.clientCA.http (not $v.probes.clientSecretName) -}}
{{- include "neso.fault" (list . "tls.clientCA.http: probes need a certificate too, set probes.clientSecretName") -}}
{{- end -}}
{{- if and (not $v.serviceAccount.create) $v.serviceAccount.annotations -}}
{{- include "neso.fault" (list . "serviceAccount.annotations needs serviceAccount.create") -}}
{{- end -}}
{{- end -}}

{{- define "neso.checks.scaling" -}}
{{- $v := .root.Values -}}{{- $pdb := $v.podDisruptionBudget -}}
{{- if and $v.hpa.enabled $v.keda.enabled -}}
{{- include "neso.fault" (list . "hpa.enabled and keda.enabled: two that count replicas work against each other, set only one") -}}
{{- end -}}
{{- if $v.hpa.enabled -}}
{{- if gt (int $v.hpa.minReplicas) (int $v.hpa.maxReplicas) -}}
{{- include "neso.fault" (list . (printf "hpa.minReplicas %d is above hpa.maxReplicas %d" (int $v.hpa.minReplicas) (int $v.hpa.maxReplicas))) -}}
{{- end -}}
{{- if and $v.hpa.cpuUtilization (not (dig "requests" "cpu" "" $v.resources)) (not (dig "limits" "cpu" "" $v.resources)) -}}
{{- include "neso.fault" (list . "hpa.cpuUtilization is a percentage of resources.requests.cpu, which is not set") -}}
{{- end -}}
{{- if and $v.hpa.memoryUtilization (not (dig "requests" "memory" "" $v.resources)) (not (dig "limits" "memory" "" $v.resources)) -}}
{{- include "neso.fault" (list . "hpa.memoryUtilization is a percentage of resources.requests.memory, which is not set") -}}
{{- end -}}
{{- if not (or $v.hpa.cpuUtilization $v.hpa.memoryUtilization $v.hpa.podMetrics $v.hpa.metrics) -}}
{{- include "neso.fault" (list . "hpa.enabled: set hpa.cpuUtilization, memoryUtilization, podMetrics or metrics") -}}
{{- end -}}
{{- end -}}
{{- if $v.keda.enabled -}}
{{- if gt (int $v.keda.minReplicas) (int $v.keda.maxReplicas) -}}
{{- include "neso.fault" (list . (printf "keda.minReplicas %d is above keda.maxReplicas %d" (int $v.keda.minReplicas) (int $v.keda.maxReplicas))) -}}
{{- end -}}
{{- if not (or $v.keda.triggers $v.keda.prometheus.serverAddress) -}}
{{- include "neso.fault" (list . "keda.enabled: set keda.prometheus.serverAddress or keda.triggers") -}}
{{- end -}}
{{- if and (eq (int $v.keda.minReplicas) 0) (not $v.keda.triggers) (not $v.keda.prometheus.query) -}}
{{- include "neso.fault" (list . "keda.minReplicas 0: what pods say of themselves cannot wake them, set keda.triggers or keda.prometheus.query to what sees demand without pods") -}}
{{- end -}}
{{- end -}}
{{- if $pdb.enabled -}}
{{- $min := $pdb.minAvailable -}}{{- $max := $pdb.maxUnavailable -}}
{{- if and (not (kindIs "invalid" $min)) (not (kindIs "invalid" $max)) -}}
{{- include "neso.fault" (list . "podDisruptionBudget has minAvailable and maxUnavailable: Kubernetes takes one, set the other to null") -}}
{{- else if and (kindIs "invalid" $min) (kindIs "invalid" $max) -}}
{{- include "neso.fault" (list . "podDisruptionBudget.enabled: set minAvailable or maxUnavailable") -}}
{{- end -}}
{{- $least := $v.replicaCount -}}{{- if $v.hpa.enabled }}{{ $least = $v.hpa.minReplicas }}{{ else if $v.keda.enabled }}{{ $least = $v.keda.minReplicas }}{{ end -}}
{{- if or (eq (toString $max) "0") (eq (toString $max) "0%") (eq (toString $min) "100%") (and (not (kindIs "invalid" $min)) (regexMatch "^[0-9]+$" (toString $min)) (gt (int $least) 0) (ge (int $min) (int $least))) -}}
{{- include "neso.fault" (list . (printf "podDisruptionBudget lets none of the %d replicas go, so that no node can be drained: lower minAvailable, or set enabled to false" (int $least))) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "neso.checks.network" -}}
{{- $v := .root.Values -}}{{- $g := $v.gateway -}}{{- $s := $v.service -}}
{{- range list "http" "grpc" -}}
{{- $r := get $g . -}}
{{- if and $r.enabled (not $r.parentRefs) -}}
{{- include "neso.fault" (list $ (printf "gateway.%s.enabled needs gateway.%s.parentRefs, such as [{name: gateway}]" . .)) -}}
{{- end -}}
{{- end -}}
{{- if and $g.http.enabled $g.grpc.enabled (eq (toJson $g.http.parentRefs) (toJson $g.grpc.parentRefs)) -}}
{{- $both := list -}}
{{- range $g.http.hostnames -}}{{- if has . $g.grpc.hostnames -}}{{- $both = append $both . -}}{{- end -}}{{- end -}}
{{- if or (not $g.http.hostnames) (not $g.grpc.hostnames) $both -}}
{{- include "neso.fault" (list . (printf "gateway.http and gateway.grpc have the same parentRefs and host names in common (%s): a gateway refuses the second, give each hostnames of its own" (join ", " $both | default "all"))) -}}
{{- end -}}
{{- end -}}
{{- if and (eq $s.ipFamilyPolicy "SingleStack") (gt (len $s.ipFamilies) 1) -}}
{{- include "neso.fault" (list . "service.ipFamilyPolicy SingleStack, and service.ipFamilies has two: set PreferDualStack or RequireDualStack") -}}
{{- end -}}
{{- if and (not $s.ipFamilyPolicy) (gt (len $s.ipFamilies) 1) -}}
{{- include "neso.fault" (list . "service.ipFamilies has two: set service.ipFamilyPolicy to PreferDualStack or RequireDualStack") -}}
{{- end -}}
{{- if and (has "IPv6" $s.ipFamilies) (regexMatch "^[0-9.]+$" $v.server.address) -}}
{{- include "neso.fault" (list . (printf "service.ipFamilies has IPv6, and server.address %s takes IPv4 only: use ::" $v.server.address)) -}}
{{- end -}}
{{- if and (eq $s.type "ClusterIP") $s.nodePorts -}}
{{- include "neso.fault" (list . "service.nodePorts needs service.type NodePort or LoadBalancer") -}}
{{- end -}}
{{- if and (eq $s.type "ClusterIP") $s.externalTrafficPolicy -}}
{{- include "neso.fault" (list . "service.externalTrafficPolicy needs service.type NodePort or LoadBalancer") -}}
{{- end -}}
{{- if and (ne $s.type "LoadBalancer") (or $s.loadBalancerClass $s.loadBalancerSourceRanges) -}}
{{- include "neso.fault" (list . "service.loadBalancerClass and loadBalancerSourceRanges need service.type LoadBalancer") -}}
{{- end -}}
{{- if and (eq $v.kind "StatefulSet") (not $v.headless.enabled) -}}
{{- include "neso.fault" (list . "kind StatefulSet needs headless.enabled, the service that names its pods") -}}
{{- end -}}
{{- if and $v.networkPolicy.egress (not $v.networkPolicy.denyEgress) -}}
{{- include "neso.fault" (list . "networkPolicy.egress has no effect without networkPolicy.denyEgress") -}}
{{- end -}}
{{- if and $v.networkPolicy.enabled $v.networkPolicy.denyEgress (eq $v.models.source "bucket") (not $v.networkPolicy.egress) -}}
{{- include "neso.fault" (list . "networkPolicy.denyEgress, and models.source is bucket: networkPolicy.egress has to let pods reach it, and what gives them credentials") -}}
{{- end -}}
{{- end -}}
