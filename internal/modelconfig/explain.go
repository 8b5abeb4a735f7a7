package modelconfig

import (
	"errors"
	"io/fs"
	"slices"
)

// Explain returns the faults of [Parse] or [ParseJSON] together with those that
// the steps up to [Draft.Validate] and [Draft.CheckDirectory] find in what could
// be read, so that one round shows all of them, in the order of the file. The
// draft is the one that came with err and cannot be used for anything else
// after; it may be nil, where nothing could be read. The other arguments are
// those of the steps.
func (d *Draft) Explain(err error, name string, model fs.FS, io bool) error {
	var faults Faults
	if d == nil || !errors.As(err, &faults) {
		return err
	}
	all := append(Faults(nil), faults...)
	all.take(d.checkBackend(name, model))
	all.take(d.gaps.own(d.validate(io, false)))
	all.take(d.gaps.own(asFaults(d.CheckDirectory(name))))
	all.sortByPlace()
	return all
}

// checkBackend completes the backend and the defaults. Where there is no
// backend, it says so, and validation then does not say it again.
func (d *Draft) checkBackend(name string, model fs.FS) Faults {
	faults := asFaults(d.CompleteBackend(name, model))
	if len(faults) > 0 {
		if d.gaps == nil {
			d.gaps = newGaps()
		}
		faults = d.gaps.own(faults)
		d.gaps.paths["backend"] = true
	}
	d.Normalize()
	return faults
}

// take appends the faults of a step.
func (fs *Faults) take(more Faults) {
	for _, f := range more {
		fs.add(f)
	}
}

// takeNew appends the faults that are not in the list yet.
func (fs *Faults) takeNew(more Faults) {
	for _, f := range more {
		if !slices.Contains(*fs, f) {
			fs.add(f)
		}
	}
}

// asFaults returns what a step found.
func asFaults(err error) Faults {
	var faults Faults
	errors.As(err, &faults)
	return faults
}
