package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/internal/cli/configs"
	"github.com/nesoserve/neso/internal/cli/modelpath"
)

// single is what `neso serve PATH...` serves beside --model-repository.
type single struct {
	models []string
	remove func()
}

// modelPaths takes the paths in front of the options off the arguments. What
// does not exist stays, for the error that tritonserver has for it.
func modelPaths(args []string) (paths, rest []string) {
	for i, arg := range args {
		if strings.HasPrefix(arg, "--") {
			return args[:i], args[i:]
		}
		if _, path := modelpath.Named(arg); !exists(path) {
			return args[:i], args[i:]
		}
	}
	return args, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// misplaced adds to the error for an argument that is no option why it was not
// taken for the path of a model.
func misplaced(err error) error {
	path, ok := strings.CutPrefix(err.Error(), unexpected)
	if !ok {
		return err
	}
	if _, missing := os.Stat(path); missing != nil {
		if errors.Is(missing, fs.ErrNotExist) {
			return fmt.Errorf("%w (it does not exist: expected a model file, the directory of a model, or an option)", err)
		}
		return fmt.Errorf("%w (%w)", err, missing)
	}
	return fmt.Errorf("%w (paths of models stand in front of the options: neso serve %s --...)", err, path)
}

// serveSingle adds models that are named by themselves to the repositories.
func (o *serveOptions) serveSingle(paths []string) (*single, error) {
	repositories, models, remove, err := modelpath.Repository(paths)
	if err != nil {
		return nil, err
	}
	o.server.ModelRepositories = append(o.server.ModelRepositories, repositories...)
	return &single{models: models, remove: remove}, nil
}

// report prints, for each model, its completed configuration and a command line
// that calls it.
func (s *single) report(w io.Writer, server *neso.Server) {
	for _, name := range s.models {
		config, err := server.ModelConfig(name, -1)
		if err != nil {
			continue // the table of models says why
		}
		if text, err := configs.Text(config); err == nil {
			fmt.Fprintf(w, "# the configuration of %s, completed:\n%s\n", name, text)
		}
		address := server.Addresses()["http"]
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			continue // no HTTP, or a Unix socket
		}
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			host = "localhost"
		}
		if call, err := firstCall(config, net.JoinHostPort(host, port)); err == nil {
			fmt.Fprintf(w, "# call it:\n%s\n", call)
		}
	}
}
