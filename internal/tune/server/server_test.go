package server

import (
	"fmt"
	"testing"
)

// What a model prints is in the log, too: it does not send the load elsewhere.
func TestTheFirstAddressesCount(t *testing.T) {
	log := newTail(nil)
	for _, service := range []string{"GRPCInferenceService", "HTTPService", "Metrics Service"} {
		for _, host := range []string{"127.0.0.1:1", "192.0.2.1:80"} {
			fmt.Fprintf(log, "I0101 00:00:00.000000 1 serve.go:1] \"Started %s at %s\"\n", service, host)
		}
	}
	const want = "127.0.0.1:1"
	if http, grpc, metrics := log.addresses(); http != want || grpc != want || metrics != want {
		t.Errorf("%s, %s, %s", http, grpc, metrics)
	}
}
