package model

import "github.com/nesoserve/neso/tensor"

// reshape maps a shape that fits the pattern from to the pattern to. Where to
// has -1, the values of from's -1 dimensions follow in order. With batching the
// first dimension stands in neither pattern and is kept.
func reshape(s, from, to tensor.Shape, batching bool) tensor.Shape {
	out := make(tensor.Shape, 0, len(to)+1)
	if batching {
		out = append(out, s[0])
		s = s[1:]
	}
	next := 0
	for _, d := range to {
		if d == -1 {
			for next < len(from) && from[next] != -1 {
				next++
			}
			if next < len(from) { // the configuration's checks see to it
				d = s[next]
				next++
			}
		}
		out = append(out, d)
	}
	return out
}
