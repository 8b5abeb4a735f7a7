package cli

import (
	"cmp"
	"fmt"
	"strconv"
)

// cloudOptions are the options of the clouds' forms.
type cloudOptions struct {
	allowSagemaker, allowVertex bool
	sagemakerPort, vertexPort   int
	// safePorts are those that other listeners may have beside SageMaker's; nil
	// means any.
	safePorts *[2]int
}

const defaultCloudPort = 8080

// cloudDefaults takes what a cloud's environment says; the command line wins.
func (o *serveOptions) cloudDefaults(getenv func(string) string) error {
	if getenv("AIP_MODE") == "PREDICTION" {
		o.allowVertex, o.allowHTTP, o.allowGRPC = true, false, false
	}
	if port := getenv("AIP_HTTP_PORT"); port != "" {
		n, err := strconv.Atoi(port)
		if err != nil {
			return &usageError{fmt.Sprintf("AIP_HTTP_PORT is %q: expected a port", port)}
		}
		o.vertexPort = n
	}
	s := &o.server
	s.Sagemaker.Model = getenv("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME")
	s.Sagemaker.LivePing = getenv("SAGEMAKER_TRITON_PING_MODE") == "live"
	s.Sagemaker.InferenceType = getenv("SAGEMAKER_TRITON_INFERENCE_TYPE")
	s.VertexAI.PredictRoute, s.VertexAI.HealthRoute = getenv("AIP_PREDICT_ROUTE"), getenv("AIP_HEALTH_ROUTE")
	return nil
}

// setSafePorts reads "<first>-<last>".
func setSafePorts(o *serveOptions, s string) error {
	first, last, err := parsePair(s, "-")
	if err != nil {
		return err
	}
	low, err1 := parseInt(first)
	high, err2 := parseInt(last)
	if err := cmp.Or(err1, err2); err != nil {
		return err
	}
	o.safePorts = &[2]int{low, high}
	return nil
}
