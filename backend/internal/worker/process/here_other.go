//go:build !unix

package process

import (
	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/linelog"
)

func (l *Launcher) here(Command, *linelog.Log) (*Process, error) { return nil, channel.ErrPlatform }
