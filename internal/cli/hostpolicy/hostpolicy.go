// Package hostpolicy reads --host-policy.
package hostpolicy

import (
	"fmt"
	"strings"
)

// Set reads <policy>,<setting>=<value> into all, by policy and setting. The last
// value of a setting counts.
func Set(all *map[string]map[string]string, s string) error {
	name, rest, ok := strings.Cut(s, ",")
	setting, value, pair := strings.Cut(rest, "=")
	if !ok || !pair || name == "" || setting == "" || value == "" {
		return fmt.Errorf("--host-policy option format is '<policy name>,<setting>=<value>'. Got %s", s)
	}
	if setting != "numa-node" && setting != "cpu-cores" {
		//nolint:staticcheck // Triton's text
		return fmt.Errorf("Unsupported host policy setting '%s' is specified, supported settings are 'numa-node', 'cpu-cores'", setting)
	}
	if *all == nil {
		*all = map[string]map[string]string{}
	}
	if (*all)[name] == nil {
		(*all)[name] = map[string]string{}
	}
	(*all)[name][setting] = value
	return nil
}
