package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/backend/all"
	"github.com/nesoserve/neso/backend/isolate"
)

// isolateCommand is what the server starts for a model that runs in a process
// of its own.
func isolateCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "isolate",
		Short:  "Serve one instance of a model as a worker of a server, which starts it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			tuneRuntime()
			if code := isolate.Main(all.Isolatable(all.Options{})); code != 0 {
				return &exitError{code}
			}
			return nil
		},
	}
}

// confineCommand is what the server starts workers through that are to have less
// rights than itself.
func confineCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "confine",
		Short:  "Become a worker of a server, which starts it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return &exitError{isolate.Confine()} },
	}
}

// workerBinary is this program, or "" where the system does not say.
func workerBinary() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}
