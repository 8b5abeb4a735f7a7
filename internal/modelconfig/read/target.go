package read

import "google.golang.org/protobuf/reflect/protoreflect"

// target takes the values that the scanner reads; nil takes none.
type target interface {
	// put sets a field, or appends to it where it repeats.
	put(fd protoreflect.FieldDescriptor, v protoreflect.Value)
	// open returns what takes the fields of a message that a field gets.
	open(fd protoreflect.FieldDescriptor) target
}

// put gives a value to a target. A field that gets a message in another way than
// by opening one gets an empty one.
func put(to target, fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch {
	case to == nil:
	case v.IsValid():
		to.put(fd, v)
	default:
		if e, ok := to.open(fd).(*entry); ok {
			e.close()
		}
	}
}

func opened(to target, fd protoreflect.FieldDescriptor) target {
	if to == nil {
		return nil
	}
	return to.open(fd)
}

// message is the target of the fields of one message.
type message struct{ m protoreflect.Message }

func (t message) put(fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	if fd.IsList() {
		t.m.Mutable(fd).List().Append(v)
		return
	}
	t.m.Set(fd, v)
}

func (t message) open(fd protoreflect.FieldDescriptor) target {
	switch {
	case fd.IsMap():
		return &entry{fd: fd, of: t.m.Mutable(fd).Map()}
	case fd.IsList():
		return message{t.m.Mutable(fd).List().AppendMutable().Message()}
	default:
		return message{t.m.Mutable(fd).Message()}
	}
}

// entry is the target of the key and the value of one entry of a map.
type entry struct {
	fd         protoreflect.FieldDescriptor
	of         protoreflect.Map
	key, value protoreflect.Value
}

func (e *entry) put(fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	if fd.Number() == e.fd.MapKey().Number() {
		e.key = v
		return
	}
	e.value = v
}

func (e *entry) open(protoreflect.FieldDescriptor) target {
	e.value = e.of.NewValue()
	return message{e.value.Message()}
}

// close puts the entry into the map; what it has not got is the default.
func (e *entry) close() {
	if !e.key.IsValid() {
		e.key = e.fd.MapKey().Default()
	}
	if !e.value.IsValid() {
		e.value = e.of.NewValue()
	}
	e.of.Set(e.key.MapKey(), e.value)
}
