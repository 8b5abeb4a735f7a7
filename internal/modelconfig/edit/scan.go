package edit

// span is where a field of the configuration stands in its text, the separator behind
// it included.
type span struct {
	name       string
	start, end int
}

// scan finds the fields of a text that is known to be well-formed. What it does not
// understand it leaves out; Text notices.
func scan(text []byte) []span {
	s := &scanner{text: text}
	var all []span
	for {
		s.blank()
		start := s.at
		name := s.word()
		if name == "" {
			return all
		}
		s.blank()
		if s.peek() == ':' {
			s.at++
			s.blank()
		}
		s.value()
		end := s.at
		s.blank()
		if c := s.peek(); c == ',' || c == ';' {
			s.at++
			end = s.at
		}
		all = append(all, span{name, start, end})
	}
}

type scanner struct {
	text []byte
	at   int
}

func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// blank skips what means nothing.
func (s *scanner) blank() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r', '\v', '\f':
			s.at++
		case '#':
			for s.at < len(s.text) && s.text[s.at] != '\n' {
				s.at++
			}
		default:
			return
		}
	}
}

// word is what goes on until a blank or a mark.
func (s *scanner) word() string {
	start := s.at
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r', '\v', '\f', '#', ':', '{', '}', '<', '>', '[', ']', ',', ';', '"', '\'':
			return string(s.text[start:s.at])
		}
		s.at++
	}
	return string(s.text[start:])
}

func (s *scanner) value() {
	switch c := s.peek(); c {
	case '{', '<', '[':
		s.nested()
	case '"', '\'':
		for s.peek() == '"' || s.peek() == '\'' {
			s.quoted()
			end := s.at
			s.blank()
			if c := s.peek(); c != '"' && c != '\'' {
				s.at = end
				return
			}
		}
	default:
		s.word()
	}
}

// nested skips what stands in brackets.
func (s *scanner) nested() {
	for depth := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '{', '<', '[':
			depth++
			s.at++
		case '}', '>', ']':
			depth--
			s.at++
			if depth == 0 {
				return
			}
		case '"', '\'':
			s.quoted()
		case '#':
			s.blank()
		default:
			s.at++
		}
	}
}

func (s *scanner) quoted() {
	quote := s.text[s.at]
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			s.at++
		case quote:
			s.at++
			return
		}
	}
	s.at = min(s.at, len(s.text))
}
