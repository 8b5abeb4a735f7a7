package modelpath

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend/all"
	"github.com/nesoserve/neso/internal/setting"
)

// Load starts a server without a network that has loaded one model, and
// others if asked. dir is what Directory returns.
func Load(ctx context.Context, dir, python, backends string, with []string, strict bool, log io.Writer) (*neso.Server, error) {
	srv := &neso.Server{
		OptionPrefix:      setting.Options,
		ModelRepositories: []string{filepath.Dir(dir)}, ControlMode: "explicit",
		StartupModels:    append(slices.Clone(with), filepath.Base(dir)),
		Backends:         all.Drivers(all.Options{Python: python}),
		BackendDirectory: backends, StrictOutputs: strict,
		ExitTimeout: 10 * time.Second,
		Logger:      slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	return srv, srv.Start(ctx)
}
