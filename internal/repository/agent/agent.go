// Package agent holds the repository agents: what a model's configuration asks
// to be done with its files before they are loaded. The checksum agent is built
// in; there are no others.
package agent

import (
	"path/filepath"
	"runtime"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// DefaultDirectory is where the peer looks for agents by default.
const DefaultDirectory = "/opt/tritonserver/repoagents"

// Load runs the agents of a model whose files lie in dir, in order. The first
// failure ends it and fails the load. searched is the directory that the error
// of an unknown agent names.
func Load(dir string, agents []modelconfig.Agent, searched string) error {
	if searched == "" {
		searched = DefaultDirectory
	}
	for _, a := range agents {
		if a.Name != "checksum" {
			return backend.Errorf(backend.InvalidArg, "unable to find '%s' for repo agent '%s', searched: %s", library(a.Name), a.Name,
				filepath.Clean(searched))
		}
		if err := checksums(dir, a.Parameters); err != nil {
			return err
		}
	}
	return nil
}

// library is the name under which the peer looks for an agent.
func library(agent string) string {
	if runtime.GOOS == "windows" {
		return "tritonrepoagent_" + agent + ".dll"
	}
	return "libtritonrepoagent_" + agent + ".so"
}
