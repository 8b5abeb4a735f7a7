package terminal

import "testing"

func TestTable(t *testing.T) {
	got := Table([][]string{{"Model", "Version"}, {"é", "1"}, {"longer name", "12"}})
	want := "+-------------+---------+\n| Model       | Version |\n+-------------+---------+\n| é           | 1       |\n| longer name | " +
		"12      |\n+-------------+---------+\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
