//go:build !unix

package worker

func (l *Launcher) spawn(Command, *lineLog) (*process, error) { return nil, errPlatform }

func waitStatus(status int32) exitStatus { return exitStatus{known: true, code: int(status)} }

func canVouch() bool { return false }

func (p *process) vouched(int, int) error { return errPlatform }

func (p *process) quit() {}

func (p *process) release() {}

func newTag() uint64 { return 0 }

func (p *process) mark() {}

func (p *process) sweep() {}
