package image

import (
	"path"
	"time"
)

// User is who the server runs as in an image.
const User = "65532:65532"

// Ports are those of HTTP, gRPC and metrics.
var ports = []int{8000, 8001, 8002}

// AddServer adds the program under each name by which it is started, and the list of
// what it is made of. The names of Triton's image lead to it, too.
func AddServer(t *Tree, program string, packages []Package, at time.Time) error {
	list, err := SBOM("neso", at, packages)
	if err != nil {
		return err
	}
	if err := t.Copy("usr/bin/neso", program, 0o755); err != nil {
		return err
	}
	for _, link := range []string{"usr/bin/tritonserver", "opt/tritonserver/bin/tritonserver", "usr/bin/serve"} {
		if err := t.Link(link, "/usr/bin/neso"); err != nil {
			return err
		}
	}
	if err := t.Dir("models", 0o755); err != nil {
		return err
	}
	return t.File(path.Join(SBOMDir, "neso.spdx.json"), 0o644, list)
}

// Serve has an image start the server with a command line, as a user that is nobody.
func Serve(c *Change, version string, command ...string) {
	c.Entrypoint, c.Command = []string{"/usr/bin/neso"}, command
	c.User, c.Directory, c.Ports = User, "/", ports
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	c.Labels[LabelVersion] = version
	c.Labels["org.opencontainers.image.title"] = "neso"
	c.Labels["org.opencontainers.image.version"] = version
	c.Labels["org.opencontainers.image.description"] = "An inference server: models of any framework over HTTP and gRPC"
	c.Labels["org.opencontainers.image.licenses"] = "Apache-2.0"
}
