package wire

// Tables number the inputs and outputs of one instance as LOAD or INIT told
// the worker, so that a tensor entry carries two bytes in place of a name.
type Tables struct {
	Inputs, Outputs []string
}

// Input returns the number of the input, or -1 for an unknown one. guess is
// where it probably stands: requests come in the order of the configuration.
func (t *Tables) Input(name string, guess int) int {
	if guess < len(t.Inputs) && t.Inputs[guess] == name {
		return guess
	}
	return position(t.Inputs, name)
}

// Output returns the number of the output, or -1.
func (t *Tables) Output(name string) int { return position(t.Outputs, name) }

// allOutputs reports whether the wanted names are all outputs.
func (t *Tables) allOutputs(wanted []string) bool {
	if len(wanted) < len(t.Outputs) {
		return false
	}
	for _, name := range t.Outputs {
		if position(wanted, name) < 0 {
			return false
		}
	}
	return true
}

func position(names []string, name string) int {
	for i := range names {
		if names[i] == name {
			return i
		}
	}
	return -1
}
