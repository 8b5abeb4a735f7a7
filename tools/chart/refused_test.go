package chart

import (
	"strings"
	"testing"
)

// Wrong values are refused, and the error says where they are.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		// The schema: the path of the value, and what it may be.
		{`replicaCount: two`, `at '/replicaCount': got string, want integer`},
		{`replicaCount: -1`, `at '/replicaCount': minimum: got -1, want 0`},
		{`replicas: 3`, `additional properties 'replicas' not allowed`},
		{`kind: DaemonSet`, `at '/kind': value must be one of 'Deployment', 'StatefulSet'`},
		{`image: {tag: "a b"}`, `at '/image/tag': 'a b' does not match pattern`},
		{`image: {digest: latest}`, `at '/image/digest'`},
		{`image: {pullPolicy: Sometimes}`, `at '/image/pullPolicy': value must be one of`},
		{`models: {source: ftp}`, `at '/models/source': value must be one of`},
		{`models: {path: models}`, `at '/models/path'`},
		{`models: {bucket: {uris: ["http://x/y"]}}`, `at '/models/bucket/uris/0'`},
		{`models: {bucket: {cache: {size: big}}}`, `at '/models/bucket/cache/size'`},
		{`models: {pvc: {accessModes: [Any]}}`, `at '/models/pvc/accessModes/0'`},
		{`server: {ports: {http: 80}}`, `at '/server/ports/http': minimum: got 80, want 1,024`},
		{`server: {options: {--x: 1}}`, `at '/server/options'`},
		{`server: {options: {x: {y: 1}}}`, `at '/server/options/x'`},
		{`service: {type: Any}`, `at '/service/type'`},
		{`service: {ports: {http: 70000}}`, `at '/service/ports/http': maximum`},
		{`service: {ipFamilies: [IPv5]}`, `at '/service/ipFamilies/0'`},
		{`service: {ipFamilies: [IPv6, IPv6]}`, `at '/service/ipFamilies': items at 0 and 1 are equal`},
		{`resources: {requests: {cpu: lots}}`, `at '/resources/requests/cpu'`},
		{`shm: {size: -1}`, `at '/shm/size'`},
		{`podDisruptionBudget: {maxUnavailable: 150%}`, `at '/podDisruptionBudget/maxUnavailable'`},
		{`commonLabels: {a: "not a label"}`, `at '/commonLabels/a'`},
		{`commonLabels: {"a b": c}`, `at '/commonLabels'`},
		{`auth: {keys: [{name: web, key: secret}]}`, `at '/auth/keys/0': missing property 'sha256'`},
		{`auth: {keys: [{name: web, sha256: abc}]}`, `at '/auth/keys/0/sha256'`},
		{`tls: {certManager: {duration: long}}`, `at '/tls/certManager/duration'`},
		{`gateway: {http: {hostnames: ["Not_a_host"]}}`, `at '/gateway/http/hostnames/0'`},
		{`env: [{value: x}]`, `at '/env/0': missing property 'name'`},
		{`hpa: {podMetrics: {a: 0}}`, `at '/hpa/podMetrics/a'`},
		{`keda: {triggers: [{type: cron}]}`, `at '/keda/triggers/0': missing property 'metadata'`},
		{`probes: {liveness: {periodSeconds: 0}}`, `at '/probes/liveness/periodSeconds'`},

		// What contradicts itself.
		{`fullnameOverride: 1st`, `the name "1st"`},
		{`fullnameOverride: Neso`, `the name "Neso"`},
		{`models: {source: pvc}`, `set models.pvc.claimName, or models.pvc.create`},
		{`models: {source: pvc, pvc: {create: true}}`, `models.pvc.create needs models.pvc.size`},
		{`models: {source: pvc, pvc: {create: true, size: 1Gi, claimName: a}}`, `only one of the two`},
		{`models: {pvc: {create: true, size: 1Gi}}`, `models.pvc.create needs models.source pvc, which is image`},
		{`models: {source: pvc, pvc: {create: true, size: 1Gi, accessModes: [ReadWriteOncePod]}}`, `ReadWriteOncePod`},
		{`models: {source: bucket}`, `set models.bucket.uris`},
		{`models: {bucket: {uris: ["s3://a"]}}`, `models.bucket.uris needs models.source bucket, which is image`},
		{`models: {source: bucket, bucket: {uris: ["s3://a"], secretName: a, credentials: {secretName: b}}}`, `set only one`},
		{`models: {source: bucket, bucket: {uris: ["s3://a"], cache: {persistent: true}}}`, `needs kind StatefulSet`},
		{`models: {source: imageVolume}`, `set models.imageVolume.reference`},
		{`models: {source: initContainer}`, `set models.initContainer.image`},
		{`models: {load: [a]}`, `models.load needs models.controlMode explicit`},
		{`server: {options: {http-port: 9000}}`, `server.options has http-port, which the chart gives from a value of its own`},
		{`server: {options: {strict-readiness: false}}`, `server.options has strict-readiness`},
		{`models: {strictReadiness: "no"}`, `at '/models/strictReadiness'`},
		{`server: {ports: {http: 8001}}`, `server.ports: http, grpc and metrics need ports of their own`},
		{`service: {ports: {http: 8001}}`, `service.ports: http, grpc and metrics need ports of their own`},
		{
			`shutdown: {terminationGracePeriodSeconds: 30}`,
			`needs more than the 40 seconds of preStopSeconds, drainGraceSeconds and exitTimeoutSeconds`,
		},
		{`shm: {size: 4Gi}`, `shm.size 4Gi counts as the container's memory, whose limit is 2Gi`},
		{"auth: {secretName: a, keys: [{name: web, sha256: " + strings.Repeat("a", 64) + "}]}", `auth.secretName and auth.keys`},
		{`tls: {enabled: true}`, `tls.enabled: set tls.secretName, or tls.certManager.enabled`},
		{`tls: {secretName: a}`, `tls.enabled is false`},
		{`tls: {enabled: true, secretName: a, certManager: {enabled: true, issuerRef: {name: b}}}`, `set only one`},
		{`tls: {enabled: true, certManager: {enabled: true}}`, `needs tls.certManager.issuerRef.name`},
		{`tls: {enabled: true, secretName: a, clientCA: {secretName: b, http: true}}`, `set probes.clientSecretName`},
		{`serviceAccount: {create: false, annotations: {a: b}}`, `serviceAccount.annotations needs serviceAccount.create`},
		{`{hpa: {enabled: true}, keda: {enabled: true}}`, `hpa.enabled and keda.enabled`},
		{`hpa: {enabled: true, minReplicas: 9}`, `hpa.minReplicas 9 is above hpa.maxReplicas 8`},
		{
			`{hpa: {enabled: true}, resources: {requests: {cpu: null}}}`,
			`hpa.cpuUtilization is a percentage of resources.requests.cpu, which is not set`,
		},
		{`hpa: {enabled: true, cpuUtilization: null}`, `hpa.enabled: set hpa.cpuUtilization`},
		{`keda: {enabled: true}`, `keda.enabled: set keda.prometheus.serverAddress or keda.triggers`},
		{
			`keda: {enabled: true, minReplicas: 0, prometheus: {serverAddress: "http://a"}}`,
			`what pods say of themselves cannot wake them`,
		},
		{`podDisruptionBudget: {minAvailable: 1}`, `set the other to null`},
		{`podDisruptionBudget: {maxUnavailable: 0}`, `lets none of the 2 replicas go`},
		{`podDisruptionBudget: {minAvailable: 2, maxUnavailable: null}`, `lets none of the 2 replicas go`},
		{`gateway: {http: {enabled: true}}`, `gateway.http.enabled needs gateway.http.parentRefs`},
		{
			`gateway: {http: {enabled: true, parentRefs: [{name: a}], hostnames: [a.b]}, ` +
				`grpc: {enabled: true, parentRefs: [{name: a}], hostnames: [a.b]}}`,
			`host names in common (a.b)`,
		},
		{
			`service: {ipFamilyPolicy: SingleStack, ipFamilies: [IPv4, IPv6]}`,
			`service.ipFamilyPolicy SingleStack, and service.ipFamilies has two`,
		},
		{`service: {ipFamilies: [IPv4, IPv6]}`, `set service.ipFamilyPolicy`},
		{`{service: {ipFamilies: [IPv6]}, server: {address: 0.0.0.0}}`, `server.address 0.0.0.0 takes IPv4 only`},
		{`service: {nodePorts: {http: 30080}}`, `service.nodePorts needs service.type`},
		{`service: {loadBalancerClass: a}`, `need service.type LoadBalancer`},
		{`{kind: StatefulSet, headless: {enabled: false}}`, `kind StatefulSet needs headless.enabled`},
		{`networkPolicy: {egress: [{}]}`, `networkPolicy.egress has no effect without networkPolicy.denyEgress`},
		{
			`{networkPolicy: {enabled: true, denyEgress: true}, models: {source: bucket, bucket: {uris: ["s3://a"]}}}`,
			`networkPolicy.egress has to let pods reach it`,
		},
	} {
		got, err := render(c.values, rendering{})
		if err == nil {
			t.Errorf("%s: expected the error %q, got\n%s", c.values, c.want, got)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: expected the error %q, got %q", c.values, c.want, err)
		}
	}
}

// All that contradicts itself is said at once.
func TestAllFaults(t *testing.T) {
	_, err := render(`{models: {source: pvc}, tls: {enabled: true}}`, rendering{})
	if err == nil || !strings.Contains(err.Error(), "models.pvc.claimName") || !strings.Contains(err.Error(), "tls.secretName") {
		t.Errorf("expected both faults, got %v", err)
	}
}

func TestOldKubernetes(t *testing.T) {
	values := `models: {source: imageVolume, imageVolume: {reference: a}}`
	_, err := render(values, rendering{kubernetes: "v1.32.4"})
	if err == nil || !strings.Contains(err.Error(), "needs Kubernetes 1.33 or newer, this is v1.32.4") {
		t.Errorf("expected that Kubernetes is too old, got %v", err)
	}
	if _, err := render(values, rendering{kubernetes: "v1.33.0-gke.1"}); err != nil {
		t.Errorf("expected no error with Kubernetes 1.33, got %v", err)
	}
}
