//go:build !unix

package process

import (
	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/linelog"
)

func (l *Launcher) spawn(Command, *linelog.Log) (*Process, error) { return nil, channel.ErrPlatform }

func waitStatus(status int32) exitStatus { return exitStatus{known: true, code: int(status)} }

func canVouch() bool { return false }

func (p *Process) vouched(int, int) error { return channel.ErrPlatform }

func (p *Process) quit() {}

func (p *Process) Release() {}

func newTag() uint64 { return 0 }

func (p *Process) Sweep() {}
