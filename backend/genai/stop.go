package genai

import "strings"

// stopper looks for strings that end a text in pieces of it. What may be the beginning of one is
// held back until that is clear.
type stopper struct {
	stops []string
	keep  bool // the string stays in the text
	held  string
}

// push takes a piece and returns what of the text is certain; found says that it ends here.
func (s *stopper) push(piece string) (out string, found bool) {
	if len(s.stops) == 0 {
		return piece, false
	}
	text := s.held + piece
	s.held = ""
	at, length := -1, 0
	for _, stop := range s.stops {
		// The one that ends first counts, as if the text had come byte by byte; of several that of
		// the most bytes.
		i := strings.Index(text, stop)
		if i < 0 {
			continue
		}
		if end := i + len(stop); at < 0 || end < at+length || end == at+length && i < at {
			at, length = i, len(stop)
		}
	}
	if at >= 0 {
		if s.keep {
			at += length
		}
		return text[:at], true
	}
	keep := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(text)); n > keep; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				keep = n
				break
			}
		}
	}
	s.held = text[len(text)-keep:]
	return text[:len(text)-keep], false
}

// rest returns what was held back.
func (s *stopper) rest() string {
	text := s.held
	s.held = ""
	return text
}
