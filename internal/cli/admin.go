package cli

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// setAdminAddress takes host:port or unix:/path.
func setAdminAddress(o *serveOptions, s string) error {
	o.server.AdminAddress = s
	return checkAddress("admin-address", s)
}

// setDashboardAddress takes the same.
func setDashboardAddress(o *serveOptions, s string) error {
	o.server.Metrics.DashboardAddress = s
	return checkAddress("dashboard-address", s)
}

func checkAddress(name, s string) error {
	if !strings.HasPrefix(s, "unix:") {
		if _, port, err := net.SplitHostPort(s); err != nil || port == "" {
			return fmt.Errorf("invalid argument for --%s: got %q, expected host:port or unix:/path", name, s)
		}
	}
	return nil
}

// nonEmptyVar is stringVar for what must be said if it is given.
func nonEmptyVar(name string, p func(*serveOptions) *string) func(*serveOptions, string) error {
	return func(o *serveOptions, s string) error {
		if s == "" {
			return errors.New("invalid argument for --" + name + ": it is empty")
		}
		*p(o) = s
		return nil
	}
}
