package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nesoserve/neso"
)

// restrictable are the categories of the protocol that an option can close.
var restrictable = []string{
	"health", "metadata", "inference", "shared-memory", "model-config", "model-repository", "statistics", "trace", "logging",
}

// grpcPrefix is what the peer puts before the key of gRPC metadata.
const grpcPrefix = "triton-grpc-protocol-"

// setRestricted takes "<category>,...:<key>=<value>". what is the word of the
// messages: api or protocol.
func setRestricted(option, what, prefix string, of func(*serveOptions) *map[string]neso.Restriction) func(*serveOptions, string) error {
	return func(o *serveOptions, text string) error {
		list, rest, ok := strings.Cut(text, ":")
		key, value, both := strings.Cut(rest, "=")
		if !ok || !both || list == "" || key == "" || value == "" {
			return fmt.Errorf("--%s option format is '<config name>:<setting>=<value>'. Got %s", option, text)
		}
		m := of(o)
		if *m == nil {
			*m = map[string]neso.Restriction{}
		}
		for category := range strings.SplitSeq(list, ",") {
			if !slices.Contains(restrictable, category) {
				return fmt.Errorf("unknown restricted %s '%s' ", what, category)
			}
			if _, there := (*m)[category]; there {
				return fmt.Errorf("restricted %s '%s' can not be specified in multiple config groups", what, category)
			}
			(*m)[category] = neso.Restriction{Key: prefix + key, Value: value}
		}
		return nil
	}
}
