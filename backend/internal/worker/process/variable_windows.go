package process

import "strings"

// variable is the name of a variable of the environment as it is compared: its case says
// nothing here, and a secret is one in any.
func variable(name string) string { return strings.ToUpper(name) }

// systemBasics are what programs of this system look for.
var systemBasics = []string{
	"SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERNAME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA",
	"PROGRAMDATA", "PROGRAMFILES*", "NUMBER_OF_PROCESSORS", "PROCESSOR_*",
}
