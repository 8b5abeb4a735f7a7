package cli

import (
	"fmt"
	"strings"

	"github.com/nesoserve/neso"
)

// setRateLimitResource reads <name>:<count>[:<device>]. Without a device each
// one has the resource.
func setRateLimitResource(o *serveOptions, s string) error {
	fields := strings.Split(s, ":")
	if len(fields) < 2 || len(fields) > 3 {
		return fmt.Errorf("--rate-limit-resource option format is '<resource_name>:<count>:<device>' or '<resource_name>:<count>'. Got %s", s)
	}
	r := neso.RateLimitResource{Name: fields[0], Device: neso.EveryDevice}
	var err error
	if r.Count, err = parseInt(fields[1]); err != nil {
		return err
	}
	if len(fields) == 3 {
		if r.Device, err = parseInt(fields[2]); err != nil {
			return err
		}
	}
	if r.Count < 0 {
		return fmt.Errorf("Invalid option value. Got %s", s) //nolint:staticcheck // Triton's text
	}
	o.server.RateLimitResources = append(o.server.RateLimitResources, r)
	return nil
}
