package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// manual is the manual page neso(1), made of what the program says of itself.
func (r *release) manual() ([]byte, error) {
	commands, err := os.ReadFile(filepath.Join(r.texts, "help.txt"))
	if err != nil {
		return nil, err
	}
	options, err := os.ReadFile(filepath.Join(r.texts, "help-serve.txt"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH NESO 1 %s \"neso %s\" \"User Commands\"\n", r.at.Format("2006-01-02"), r.version)
	b.WriteString(".SH NAME\nneso \\- inference server for models of any framework\n")
	b.WriteString(".SH SYNOPSIS\n.B neso serve\n[\\fIPATH\\fR...] [\\fIoptions\\fR]\n.br\n.B neso\n\\fIcommand\\fR [\\fIoptions\\fR]\n")
	b.WriteString(".SH DESCRIPTION\n")
	b.WriteString("Serves models over the KServe v2 protocol, HTTP/REST and gRPC, with the options, configurations\n")
	b.WriteString("and metrics of Triton Inference Server.\n")
	verbatim(&b, "COMMANDS", commands)
	verbatim(&b, "OPTIONS OF NESO SERVE", options)
	b.WriteString(".SH FILES\n.TP\n.I /etc/neso/neso.conf\noptions of the service\n.TP\n.I /var/lib/neso/models\nits model repository\n")
	b.WriteString(".SH SEE ALSO\nhttps://github.com/nesoserve/neso\n")
	return b.Bytes(), nil
}

// verbatim writes a section of lines as they are.
func verbatim(b *bytes.Buffer, title string, text []byte) {
	fmt.Fprintf(b, ".SH %q\n.nf\n", title)
	for line := range strings.Lines(string(text)) {
		line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\t", "        ").Replace(strings.TrimRight(line, "\n"))
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		b.WriteString(line + "\n")
	}
	b.WriteString(".fi\n")
}
