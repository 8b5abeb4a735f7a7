package grpcapi

import (
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// protoHead stands above the description: descriptors carry no comments.
const protoHead = `// The KServe v2 inference protocol over gRPC, as this server speaks it. Generators
// of stubs take this file; names and numbers are those of Triton's
// grpc_service.proto and model_config.proto.
syntax = "proto3";

package ` + wirePackage + `;
`

// WriteProto writes the protocol as one .proto file, under the names that clients call.
func WriteProto(w io.Writer) error {
	files, err := wireFiles()
	if err != nil {
		return err
	}
	p := &protoPrinter{}
	p.w.WriteString(protoHead)
	for _, path := range []string{"grpc_service.proto", "model_config.proto"} {
		f, err := files.FindFileByPath(path)
		if err != nil {
			return err
		}
		p.file(f)
	}
	_, err = io.WriteString(w, p.w.String())
	return err
}

// protoPrinter prints what the protocol's descriptors have: messages, enumerations
// and services of proto3, without options and extensions.
type protoPrinter struct {
	w     strings.Builder
	depth int
}

func (p *protoPrinter) line(format string, args ...any) {
	p.w.WriteString(strings.Repeat("  ", p.depth))
	fmt.Fprintf(&p.w, format+"\n", args...)
}

func (p *protoPrinter) block(head string, inside func()) {
	p.line("%s {", head)
	p.depth++
	inside()
	p.depth--
	p.line("}")
}

func (p *protoPrinter) file(f protoreflect.FileDescriptor) {
	for i := range f.Services().Len() {
		p.w.WriteByte('\n')
		p.service(f.Services().Get(i))
	}
	for i := range f.Enums().Len() {
		p.w.WriteByte('\n')
		p.enum(f.Enums().Get(i))
	}
	for i := range f.Messages().Len() {
		p.w.WriteByte('\n')
		p.message(f.Messages().Get(i))
	}
}

func (p *protoPrinter) service(s protoreflect.ServiceDescriptor) {
	p.block("service "+string(s.Name()), func() {
		for i := range s.Methods().Len() {
			m := s.Methods().Get(i)
			p.line("rpc %s(%s%s) returns (%s%s);", m.Name(), streamed(m.IsStreamingClient()), m.Input().Name(),
				streamed(m.IsStreamingServer()), m.Output().Name())
		}
	})
}

func streamed(is bool) string {
	if is {
		return "stream "
	}
	return ""
}

func (p *protoPrinter) enum(e protoreflect.EnumDescriptor) {
	p.block("enum "+string(e.Name()), func() {
		for i := range e.Values().Len() {
			v := e.Values().Get(i)
			p.line("%s = %d;", v.Name(), v.Number())
		}
	})
}

func (p *protoPrinter) message(m protoreflect.MessageDescriptor) {
	p.block("message "+string(m.Name()), func() {
		for i := range m.Enums().Len() {
			p.enum(m.Enums().Get(i))
		}
		for i := range m.Messages().Len() {
			if nested := m.Messages().Get(i); !nested.IsMapEntry() {
				p.message(nested)
			}
		}
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			choice := f.ContainingOneof()
			if choice == nil {
				p.field(m, f)
			} else if choice.Fields().Get(0) == f {
				p.block("oneof "+string(choice.Name()), func() {
					for j := range choice.Fields().Len() {
						p.field(m, choice.Fields().Get(j))
					}
				})
			}
		}
	})
}

func (p *protoPrinter) field(in protoreflect.MessageDescriptor, f protoreflect.FieldDescriptor) {
	kind := fieldType(in, f)
	switch {
	case f.IsMap():
		kind = fmt.Sprintf("map<%s, %s>", fieldType(in, f.MapKey()), fieldType(in, f.MapValue()))
	case f.IsList():
		kind = "repeated " + kind
	}
	p.line("%s %s = %d;", kind, f.Name(), f.Number())
}

// fieldType names a field's type as it is found from the message in.
func fieldType(in protoreflect.MessageDescriptor, f protoreflect.FieldDescriptor) string {
	var d protoreflect.Descriptor
	switch f.Kind() {
	case protoreflect.MessageKind:
		d = f.Message()
	case protoreflect.EnumKind:
		d = f.Enum()
	default:
		return f.Kind().String()
	}
	name := string(d.FullName())
	if rest, ok := strings.CutPrefix(name, string(in.FullName())+"."); ok {
		return rest
	}
	return strings.TrimPrefix(name, wirePackage+".")
}
