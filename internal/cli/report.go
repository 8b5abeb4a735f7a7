package cli

import (
	"fmt"
	"strings"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/internal/cli/terminal"
)

// longestReason keeps a row of the table on a line of most screens.
const longestReason = 80

// report prints the table of models, those that were never loaded left out, or
// says that there are none. Of a start that failed the reasons are shortened: they
// follow in full.
func report(log *neso.Log, s *neso.Server, failed bool) {
	rows := [][]string{{"Model", "Version", "Status"}}
	for _, m := range s.Models() {
		if m.State != "" {
			text := []rune(status(m))
			if failed && len(text) > longestReason {
				text = append(text[:longestReason], []rune("...")...)
			}
			rows = append(rows, []string{m.Name, m.Version, string(text)})
		}
	}
	switch {
	case len(rows) == 1 && failed: // for another reason
	case len(rows) == 1:
		log.Logger().Info("no models are loaded")
	case log.Format() == "json":
		for _, row := range rows[1:] {
			log.Logger().Info("model", "model", row[0], "version", row[1], "status", row[2])
		}
	default:
		log.Print(terminal.Table(rows))
	}
}

// status is a model's state with the first of the reasons why it does not serve,
// which the log has all of.
func status(m neso.ModelStatus) string {
	reason := strings.TrimSpace(m.Reason)
	reason = strings.TrimPrefix(reason, "failed to load '"+m.Name+"', failed to poll from model repository: ")
	if reason == "" {
		return m.State
	}
	first, rest, more := strings.Cut(reason, "\n")
	if more {
		first += fmt.Sprintf(" (and %d more, in the log)", strings.Count(rest, "\n")+1)
	}
	return m.State + ": " + first
}
