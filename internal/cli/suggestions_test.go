package cli_test

import (
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/asset"
	"github.com/fermi-cluster/fermi/internal/cli/env"
	"github.com/fermi-cluster/fermi/internal/cli/near"
	"github.com/fermi-cluster/fermi/internal/cli/service"
)

// TestSuggestionsExist: whatever is suggested can be typed, and no word is both a command and another name of one.
func TestSuggestionsExist(t *testing.T) {
	root := cli.Root(cli.BuildInfo{})
	asset.Add(root)
	env.Add(root)
	service.Add(root)
	for path, rows := range near.Words {
		group, _, err := root.Find(strings.Fields(path)[1:])
		if err != nil || group.CommandPath() != path {
			t.Errorf("there is no %s", path)
			continue
		}
		for _, row := range rows {
			words, meant, _ := strings.Cut(row, " = ")
			for _, word := range strings.Fields(words) {
				if cmd, _, err := group.Find([]string{word}); err == nil && cmd != group {
					t.Errorf("%s %s is a command", path, word)
				}
			}
			for line := range strings.SplitSeq(meant, "; ") {
				args := strings.Fields(strings.TrimPrefix(line, "fermi "))
				from := group
				if strings.HasPrefix(line, "fermi ") {
					from = root
				}
				if cmd, _, err := from.Find(args); err != nil || cmd == from || cmd.HasSubCommands() && args[len(args)-1] != "…" {
					t.Errorf("%s: %q is no command", path, line)
				}
			}
		}
	}
}
