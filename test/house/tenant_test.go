package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The launcher is root. Whatever touches a path that a tenant named, or that lies in a folder the tenant can write to, is done by a process that has
// become the tenant: launch/deed does it, launch/steward and launch/chore have it done. Nobody else in launch opens a path, but for those of its own.

// stewards are the packages that touch paths with the rights of whoever calls them: their process is the tenant's, or nobody's.
var stewards = []string{
	"internal/launch/deed", "internal/launch/chore", "internal/launch/unpack", "internal/launch/gitcode",
	"internal/launch/editor",   // a program of the tenant's, behind the wall; what the launcher calls of it looks at folders of root's alone
	"internal/launch/imagejob", // a program of the tenant's, behind the wall
	"internal/launch/layer",    // likewise
	"internal/launch/rootfs",   // as the uid that keeps images; what the launcher calls of it touches that uid's folder alone
	"internal/launch/depot",    // likewise as the project; what the launcher calls of it touches locks in a folder of root's, and names of ours in the project's
	"internal/launch/inside",   // process 1: mounts of paths that the launcher and the operator name
}

// touching are the calls that reach a file by its path.
var touching = map[string][]string{
	"os": {
		"Open", "OpenFile", "OpenRoot", "OpenInRoot", "Create", "CreateTemp", "ReadFile", "WriteFile", "ReadDir", "Stat", "Lstat", "Mkdir", "MkdirAll", "MkdirTemp", "Rename",
		"Remove", "RemoveAll", "Chown", "Lchown", "Chmod", "Chtimes", "Readlink", "Symlink", "Link", "Truncate", "DirFS", "CopyFS", "Chdir", "StartProcess",
	},
	"filepath": {"Walk", "WalkDir", "EvalSymlinks", "Glob"},
	"fs":       {"WalkDir", "ReadDir", "ReadFile", "Stat", "Glob"},
	"ioutil":   {"ReadFile", "ReadDir", "WriteFile"},
	"exec":     {"Command", "CommandContext", "LookPath"},
	"unix": {
		"Open", "Openat", "Openat2", "OpenTree", "Stat", "Lstat", "Fstatat", "Statx", "Statfs", "Mkdir", "Mkdirat", "Mknod", "Mknodat", "Mkfifo", "Rename", "Renameat", "Renameat2", "Unlink", "Unlinkat", "Rmdir", "Chown",
		"Lchown", "Fchownat", "Chmod", "Fchmodat", "Access", "Faccessat", "Link", "Linkat", "Symlink", "Symlinkat", "Readlink", "Readlinkat", "Truncate", "Utimes", "Mount", "Chdir", "Chroot", "Setxattr", "Getxattr",
	},
	"syscall": {
		"Open", "Openat", "Stat", "Lstat", "Statfs", "Mkdir", "Mknod", "Mkfifo", "Rename", "Unlink", "Rmdir", "Chown", "Lchown", "Chmod", "Access", "Faccessat", "Link", "Symlink", "Readlink", "Truncate", "Mount", "Chdir",
		"Exec", "ForkExec", "StartProcess",
	},
	"ckpt":       {"OpenSlot", "SealSlot", "CheckSlot", "WipeSlot", "Receive"},
	"watch":      {"New"},
	"unpack":     {"Unpack"},
	"gitcode":    {"Clone"},
	"rootfs":     {"Bring"},
	"depot":      {"Lay", "Drop"},
	"layer":      {"Diff", "Lay"},
	"securejoin": {"SecureJoin"},
	"inside":     {"Find", "Start"},
}

// ownPaths are who may, and why: file: function: calls. A path is the launcher's own if no tenant can change what lies on the way to it.
var ownPaths = map[string]map[string][]string{
	// The replica's folder and its records, which no tenant can enter.
	"setup/credential.go": {"write": {"os.Mkdir", "os.WriteFile"}},
	"setup/environ.go":    {"writeHyper": {"os.WriteFile"}},
	"launch.go":           {"Run": {"os.OpenFile"}, "settle": {"filepath.EvalSymlinks"}},
	"setup/recipe.go":     {"WriteRecipe": {"os.Mkdir", "os.Remove", "os.WriteFile", "os.Rename"}},
	"setup/secret.go":     {"writeSecrets": {"os.MkdirAll", "os.WriteFile"}, "DropSecrets": {"os.RemoveAll"}},
	"spool/spool.go":      {"Open": {"os.OpenFile"}},
	"setup/folders.go":    {"MakeFolders": {"os.Mkdir", "os.Chmod"}, "Give": {"os.Lchown"}},
	"setup/access.go":     {"GiveAccess": {"os.RemoveAll", "os.Mkdir", "os.Chmod", "os.WriteFile", "os.Symlink"}, "dropAccess": {"os.RemoveAll"}, "exists": {"os.Stat"}, "sameFile": {"os.Stat"}}, // folders of the replica's that no tenant writes to; our own program
	"setup/wall.go":       {"walled": {"inside.Start"}},
	"setup/peel.go":       {"startRooted": {"inside.Start"}},
	// In a pod alone: the launcher has there the rights of the image's user, as the ranks have, and nobody else is there.
	"setup/data.go":             {"show": {"os.MkdirAll", "os.Lstat", "os.Remove", "os.Symlink"}, "unshow": {"os.Readlink", "os.Remove"}},
	"disk.go":                   {"makeRoom": {"os.RemoveAll"}},                                                                     // names below the replica's own folder are unlinked, not followed, after its last process
	"setup/sdk.go":              {"giveSDK": {"os.RemoveAll"}, "giveNew": {"filepath.WalkDir"}},                                     // made here, before a process of the tenant's runs
	"inside/program/program.go": {"In": {"os.Lstat", "fs.Stat"}, "lay": {"os.MkdirAll", "os.CreateTemp", "os.Remove", "os.Rename"}}, // a folder beside those of the replicas, which nobody but root enters
	"process/standby.go": {
		"start": {"os.OpenFile"},             // /dev/null
		"Tidy":  {"os.ReadDir", "os.Remove"}, // names in the wall's own shared memory are unlinked, not followed
	},
	"rankset/socket.go": {"OpenSocket": {"os.Open", "os.Remove", "os.Chmod", "os.Rename"}}, // made in the replica's folder, moved into its /tmp: a rename follows no link
	// Folders directly in /dev/shm, which is root's and sticky.
	"setup/memory.go": {"MakeMemory": {"os.RemoveAll", "os.Mkdir"}, "DropMemory": {"os.RemoveAll"}},
	// What is written over images: folders that root alone can enter; the names in them are ours, and removal follows no link.
	"setup/layer.go": {"open": {"os.Mkdir", "os.RemoveAll"}, "take": {"os.Mkdir", "os.RemoveAll", "os.Chmod", "os.Lchown"}, "as": {"os.Lchown"}},
	"setup/image.go": {"driver": {"os.Stat"}, "fetchImage": {"os.Mkdir", "os.Lchown"}}, // the machine's driver; the replica's folder
	// The machine's own names and name servers, and the replica's folder.
	"setup/network.go": {"Resolver": {"os.ReadFile"}, "Name": {"os.ReadFile", "os.WriteFile"}},
	// What other launchers handed us, in a folder of root's.
	"keeper/peer.go": {"settle": {"os.Mkdir", "os.Open"}, "drop": {"os.Remove"}, "take": {"os.Remove", "ckpt.Receive"}, "admit": {"os.Rename"}, "find": {"ckpt.OpenSlot"}},
	// The machine's own Python, with a program of ours, in the server; no task is there.
	"inspect/card.go": {"ComputeOn": {"exec.LookPath", "exec.Command"}},
	// The kernel's: /proc, /dev/null, this program.
	"inspect/facts.go":    {"driverOf": {"os.ReadFile"}, "freeBytes": {"unix.Statfs"}},
	"inspect/selftest.go": {"BeginTrial": {"os.OpenFile"}},
	"shmtest/slot.go":     {"Copied": {"os.WriteFile"}}, // for tests alone
	"probe.go":            {"fillMemory": {"os.WriteFile", "exec.LookPath", "syscall.ForkExec"}},
	"process/open.go":     {"writesOf": {"os.Open", "os.ReadFile"}, "mappedBy": {"os.Open"}},
	"process/process.go":  {"Spawn": {"os.Open"}, "Plain": {"syscall.ForkExec", "os.WriteFile"}},
	"process/sever.go":    {"Sever": {"os.ReadDir", "os.Readlink"}},
	"process/stacks.go":   {"*": {"os.Open"}},
	"process/tree.go":     {"ReadAll": {"os.Open"}, "Marked": {"os.Open"}, "Childless": {"os.ReadDir", "os.ReadFile"}},
	"setup/errand.go":     {"sendAs": {"os.OpenFile"}, "startChore": {"syscall.ForkExec", "inside.Start"}},
	"setup/helper.go":     {"startHelper": {"os.OpenFile", "inside.Start"}},
	// A folder that the steward reads.
	"keeper/folder.go": {"watcher": {"watch.New"}, "unchanged": {"watch.New"}},
	"keeper/aside.go":  {"link": {"watch.New"}, "unmoved": {"watch.New"}, "left": {"watch.New"}},
}

// TestRootTouchesNothingOfTenants: a new call that reaches a file by its path is refused unless it stands above.
func TestRootTouchesNothingOfTenants(t *testing.T) {
	used := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.test || !strings.HasPrefix(f.pkg, "internal/launch") || slices.Contains(stewards, f.pkg) {
			continue
		}
		names := imported(f)
		file := strings.TrimPrefix(f.path, "internal/launch/")
		for _, call := range pathCalls(f.ast, names) {
			where := file + ": " + call.function + ": " + call.name
			allowed := slices.Contains(ownPaths[file][call.function], call.name) || slices.Contains(ownPaths[file]["*"], call.name)
			if !allowed {
				t.Errorf("%s: %s calls %s; paths that a tenant named or can change are the steward's (see test/house/tenant_test.go)", f.path, call.function, call.name)
			}
			used[where], used[file+": *: "+call.name] = true, true
		}
	}
	for file, functions := range ownPaths {
		for function, calls := range functions {
			for _, call := range calls {
				if !used[file+": "+function+": "+call] {
					t.Errorf("%s: %s does not call %s any more; take it off the list", file, function, call)
				}
			}
		}
	}
}

// imported are the packages of a file by the names that it uses for them, of those in touching.
func imported(f file) map[string]string {
	out := map[string]string{}
	for _, spec := range f.ast.Imports {
		full, _ := strconv.Unquote(spec.Path.Value)
		last := full[strings.LastIndex(full, "/")+1:]
		last = strings.TrimPrefix(last, "filepath-")
		if _, ok := touching[last]; !ok {
			continue
		}
		name := last
		if spec.Name != nil {
			name = spec.Name.Name
		}
		out[name] = last
	}
	return out
}

type pathCall struct{ function, name string }

// pathCalls are the mentions of touching functions, called or handed on, by the function that they are in.
func pathCalls(tree *ast.File, names map[string]string) (out []pathCall) {
	for _, decl := range tree.Decls {
		function := "(package)"
		if f, ok := decl.(*ast.FuncDecl); ok {
			function = f.Name.Name
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(touching[names[x.Name]], sel.Sel.Name) {
				out = append(out, pathCall{function, names[x.Name] + "." + sel.Sel.Name})
			}
			return true
		})
	}
	return out
}

// TestTheListRefuses: the rule sees what it is there to see.
func TestTheListRefuses(t *testing.T) {
	for _, bad := range []string{
		`package x; import "os"; func f(p string) { os.Open(p) }`,
		`package x; import o "os"; func f(p string) { o.Lchown(p, 1, 1) }`,
		`package x; import "github.com/fermi-cluster/fermi/internal/ckpt"; func f(p string) { ckpt.OpenSlot(p) }`,
		`package x; import securejoin "github.com/cyphar/filepath-securejoin"; func f(p string) { securejoin.SecureJoin("/", p) }`,
		`package x; import "path/filepath"; var walk = filepath.WalkDir`,
	} {
		tree, err := parser.ParseFile(token.NewFileSet(), "x.go", bad, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if calls := pathCalls(tree, imported(file{ast: tree})); len(calls) != 1 {
			t.Errorf("%s: %v", bad, calls)
		}
	}
}
