package limits

// sets reports whether workers have the limit of a parameter: those that a job has.
func sets(parameter string) bool { return parameter == ParamMemory || parameter == paramCPU }
