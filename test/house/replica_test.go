package house

import (
	"go/ast"
	"strings"
	"testing"
)

// reaching are calls that open a file or a socket by its name.
var reaching = map[string]bool{
	"net.Dial": true, "net.DialTimeout": true, "net.DialTCP": true, "net.DialUnix": true, "net.Dialer": true,
	"os.Open": true, "os.OpenFile": true, "os.ReadFile": true, "os.ReadDir": true, "os.OpenRoot": true, "os.Stat": true, "os.DirFS": true,
}

// TestServerReachesReplicasByTheirLink: a replica may be on another machine, so no room of the server opens a file or a socket by its name; what
// is in a replica is reached through its launcher.
func TestServerReachesReplicasByTheirLink(t *testing.T) {
	rooms := 0
	for _, f := range goFiles(t) {
		if f.test || f.pkg != "internal/server" && !strings.HasPrefix(f.pkg, "internal/server/") {
			continue
		}
		rooms++
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && reaching[x.Name+"."+s.Sel.Name] {
					t.Errorf("%s uses %s.%s; what is in a replica is reached through its launcher's link (internal/link/talk)", f.path, x.Name, s.Sel.Name)
				}
			}
			return true
		})
	}
	if rooms < 50 {
		t.Errorf("only %d files were looked at", rooms)
	}
}
