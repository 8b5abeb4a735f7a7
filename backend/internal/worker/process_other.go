//go:build !unix

package worker

func (l *Launcher) spawn(Command, *lineLog) (*process, error) { return nil, errPlatform }

func waitStatus(status int32) exitStatus { return exitStatus{known: true, code: int(status)} }

func ended(int) func() bool { return func() bool { return false } }

func (p *process) quit() {}

func groupSignal(*process) func(processSignal) { return func(processSignal) {} }
