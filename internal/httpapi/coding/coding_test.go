package coding

import "testing"

func TestChoose(t *testing.T) {
	for accept, want := range map[string]Coding{
		"": None, "gzip": Gzip, "deflate": Deflate, "gzip, deflate": Gzip, "deflate, gzip": Deflate,
		"gzip;q=0.5, deflate;q=0.7": Deflate,
		"identity, gzip":            None, "*": None, "br": None, "gzip;q=0": None, "gzip;q=x, deflate": Deflate,
		" gzip ; q=1.0": Gzip,
	} {
		if got := Choose([]string{accept}); got != want {
			t.Errorf("%q: got %v, want %v", accept, got, want)
		}
	}
}
