package chart

import (
	"fmt"
	"strings"
	"testing"
)

// All pods of the chart keep the pod security standard `restricted`, field by field.
func TestRestricted(t *testing.T) {
	for _, file := range valueFiles(t) {
		text, err := render(read(t, file), rendering{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects(t, []byte(text)) {
			spec := o["spec"]
			switch o["kind"] {
			case "Deployment", "StatefulSet":
				spec = at(t, o, "spec", "template", "spec")
			case "Pod":
			default:
				continue
			}
			if at(t, spec, "securityContext", "runAsNonRoot") != true ||
				at(t, spec, "securityContext", "seccompProfile", "type") != "RuntimeDefault" {
				t.Errorf("%s: %s: not restricted", file, o["kind"])
			}
			for _, host := range []string{"hostNetwork", "hostPID", "hostIPC"} {
				if at(t, spec, host) != nil {
					t.Errorf("%s: %s has %s", file, o["kind"], host)
				}
			}
			c := at(t, spec, "containers", 0, "securityContext")
			drop := fmt.Sprint(at(t, c, "capabilities", "drop"))
			if at(t, c, "allowPrivilegeEscalation") != false || at(t, c, "readOnlyRootFilesystem") != true || drop != "[ALL]" {
				t.Errorf("%s: %s: not restricted: %v", file, o["kind"], c)
			}
			if volumes, ok := at(t, spec, "volumes").([]any); ok {
				for _, v := range volumes {
					if at(t, v, "hostPath") != nil {
						t.Errorf("%s: %s has a volume of the host", file, o["kind"])
					}
				}
			}
		}
	}
}

// Whatever the release is called, names and labels have at most 63 characters, and two
// that begin alike stay two.
func TestNames(t *testing.T) {
	values := read(t, "testdata/values/bucket.yaml")
	seen := map[any]bool{}
	for _, release := range []string{"a", strings.Repeat("a", 53), strings.Repeat("a", 52) + "b", strings.Repeat("a-", 26) + "a"} {
		text, err := render(values, rendering{release: release})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects(t, []byte(text)) {
			name := at(t, o, "metadata", "name").(string)
			if len(name) > 63 || strings.HasSuffix(name, "-") || strings.Contains(name, "--") {
				t.Errorf("%s %q: expected a name of at most 63 characters that does not end in -", o["kind"], name)
			}
			for key, value := range at(t, o, "metadata", "labels").(map[string]any) {
				if len(value.(string)) > 63 {
					t.Errorf("%s: label %s: %q is too long", name, key, value)
				}
			}
			if o["kind"] != "StatefulSet" {
				continue
			}
			if len(name)+len("-0123456789") > 63 {
				t.Errorf("%q leaves no room for the hash of a revision", name)
			}
			if seen[name] {
				t.Errorf("two releases have the name %s", name)
			}
			seen[name] = true
		}
	}
}
