package lifecycle

import (
	"context"
	"log/slog"

	"github.com/nesoserve/neso/internal/repository/agent"
	"github.com/nesoserve/neso/internal/stats"
)

// maker makes versions out of what the repository holds: it reads and completes
// configurations, checks them, runs agents, opens backends. Which models are loaded it
// does not know; that is the Manager's.
type maker struct {
	o        Options
	log      *slog.Logger
	book     *stats.Book
	backends *backends
	agents   *agent.Set
	ctx      context.Context // ends when loads must stop
}
