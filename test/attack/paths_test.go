package attack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestPaths: root acts on no path that a tenant named, on virtual nodes and on the machine's own.
func TestPaths(t *testing.T) {
	for _, demo := range []bool{true, false} {
		name := "node"
		if demo {
			name = "demo"
		}
		t.Run(name, func(t *testing.T) {
			w := invade(t, demo)
			for _, a := range []struct {
				name string
				try  func(*world)
			}{
				{"folders that nobody granted", foldersNotGranted},
				{"a folder reached by a link", foldersByLink},
				{"a folder that the tenant may not enter", foldersClosed},
				{"a checkpoint folder that is swapped", swaps},
				{"folders that are swapped while others look", races},
				{"memory that is swapped", memoryRace},
				{"links among outputs", outputLinks},
				{"links in shared memory", memoryLinks},
				{"a pipe where packages are looked for", pipeInPath},
				{"archives that lead out", archives},
			} {
				began := time.Now()
				a.try(w)
				w.hold(a.name)
				t.Logf("%-45s held, %.1f s", a.name, time.Since(began).Seconds())
			}
			w.works("after-paths")
		})
	}
}

// foldersNotGranted is the way that led to root: the parent of the data folder as code, the data folder as checkpoints.
func foldersNotGranted(w *world) {
	for i, folder := range []string{
		w.base, w.Dir, "/", "/root", "/etc", filepath.Join(w.base, "shared", "..", "d"), filepath.Join(w.base, "private"), "private", "private/x", "shared/../private", "shared/../d", "nobody/x", "..", "shared/a/../../../d",
	} {
		task := shell(lab, fmt.Sprintf("direct-%d", i), "cat */admin.token admin.token canary; true")
		task.Spec.Code = &api.Code{Folder: folder}
		task.Spec.Checkpoint = &api.Checkpoints{Folder: "d"}
		_, err := w.mal.Submit(w.t.Context(), task, false)
		w.refused("code.folder "+folder, err, "FolderNotAllowed", "spec.code.folder")
		_, err = w.mal.Preview(w.t.Context(), task)
		w.refused("a preview with code.folder "+folder, err, "FolderNotAllowed", "spec.code.folder")
	}
	// The control: what was granted works, by its name and by its path.
	for i, folder := range []string{"shared", filepath.Join(w.base, "shared"), "readonly"} {
		name := fmt.Sprintf("granted-%d", i)
		task := shell(lab, name, "ls > /dev/null && echo in $(pwd)")
		task.Spec.Code = &api.Code{Folder: folder}
		w.launch(task)
		if done := w.ends(w.mal, lab, name); done.Status.Phase != api.PhaseCompleted {
			w.t.Errorf("a granted folder %s: %+v", folder, done.Status.Failure)
		}
	}
}

// foldersByLink: mallory lays links in the folder it may write, then names them.
func foldersByLink(w *world) {
	lay := shell(lab, "lay", fmt.Sprintf(`ln -sfn %[1]s up; ln -sfn %[1]s/d data; mkdir -p real; ln -sfn ../../d real/ckpt; ln -sfn %[1]s/private priv; echo laid`, w.base))
	lay.Spec.Code = &api.Code{Folder: "shared"}
	w.launch(lay)
	w.ends(w.mal, lab, "lay")
	for i, c := range []struct{ folder, ckpt string }{{"shared/up", "d"}, {"shared/data", "blobs"}, {"shared/real", "ckpt"}, {"shared/priv", "x"}, {"shared", "data"}, {"shared", "up/d"}} {
		name := fmt.Sprintf("by-link-%d", i)
		task := shell(lab, name, `cat d/admin.token admin.token ckpt/admin.token data/admin.token canary; ls -la . ckpt/ data/; true`)
		task.Spec.Code = &api.Code{Folder: c.folder}
		task.Spec.Checkpoint = &api.Checkpoints{Folder: c.ckpt}
		w.launch(task) // whether it starts is its own affair
		w.ends(w.mal, lab, name)
	}
}

// foldersClosed: granted, but a folder in it is root's alone.
func foldersClosed(w *world) {
	task := shell(lab, "vault", "ls; cat canary")
	task.Spec.Code = &api.Code{Folder: "closed/vault"}
	task.Spec.Checkpoint = &api.Checkpoints{Folder: "ckpt"}
	w.launch(task)
	if done := w.ends(w.mal, lab, "vault"); done.Status.Phase != api.PhaseFailed {
		w.t.Errorf("a task in a folder that it may not enter is %s", done.Status.Phase)
	}
	task = shell(lab, "written", "touch x && echo wrote; true")
	task.Spec.Code = &api.Code{Folder: "readonly"}
	w.launch(task)
	w.ends(w.mal, lab, "written")
	if _, err := os.Stat(filepath.Join(w.base, "readonly", "x")); err == nil {
		w.t.Error("a read-only folder was written to")
	}
}

// swapper exchanges the folder that checkpoints are put into for a link to the data folder and back, as fast as it can,
// and saves in between, while generations end and begin.
const swapper = `
mkdir -p swap/real && cd swap
perl -e '
	my ($n, $to) = (0, $ENV{TARGET});
	symlink($to, "link"); mkdir "dir";
	my $end = time + 2;
	while (time < $end || $n < $ENV{SWAPS}) {
		rename("dir", "ckpt"); open(my $f, ">", "ckpt/step-" . ($n + 1) . ".pt"); print $f "x" x 64; close $f;
		rename("ckpt", "dir"); rename("link", "ckpt"); rename("ckpt", "link"); $n += 2;
	}
	rename("dir", "ckpt");
	print "swapped $n times\n";
'
exit 3
`

// swaps is the race: whenever the launcher looks, makes, restores or gives away, the folder may be a link.
func swaps(w *world) {
	task := shell(lab, "swaps", swapper)
	task.Spec.Code = &api.Code{Folder: "shared"}
	task.Spec.Checkpoint = &api.Checkpoints{Folder: "swap/ckpt"}
	task.Spec.Restart = &api.RestartPolicy{MaxRestarts: harness.EnvInt("FERMI_GENERATIONS", 3)}
	swaps := harness.EnvInt("FERMI_SWAPS", 10_000)
	task.Spec.Roles[0].Env = []api.EnvVar{{Name: "TARGET", Value: w.Dir}, {Name: "SWAPS", Value: fmt.Sprint(swaps)}}
	w.launch(task)
	w.ends(w.mal, lab, "swaps")
	log := w.log(lab, "swaps")
	if n := strings.Count(log, "swapped "); n == 0 {
		w.t.Errorf("nothing was swapped:\n%s", log)
	}
}

// racer exchanges folders and files of one task's for links to the platform's, as fast as it can, until it is told that it is enough.
const racer = `
mkdir -p race/code race/logs race/out && echo x > race/code/f && echo x > race/logs/f
cd race && perl -e '
	my ($n, $to) = (0, $ENV{TARGET});
	for my $name ("code", "logs") { symlink($to, "link-$name") }
	print "racing\n"; $| = 1;
	while ($n < $ENV{SWAPS} || !-e "enough") {
		for my $name ("code", "logs") { rename($name, "dir-$name"); rename("link-$name", $name); rename($name, "link-$name"); rename("dir-$name", $name); $n += 2 }
	}
	print "swapped $n times\n";
'
`

// races: one task exchanges folders while others are started in them, keep checkpoints in them and hand outputs over from them.
func races(w *world) {
	env := []api.EnvVar{{Name: "TARGET", Value: w.Dir}, {Name: "SWAPS", Value: fmt.Sprint(harness.EnvInt("FERMI_SWAPS", 10_000))}}
	race := shell(lab, "racer", racer)
	race.Spec.Code = &api.Code{Folder: "shared"}
	race.Spec.Roles[0].Env = env
	w.launch(race)
	w.says(w.mal, lab, "racer", "racing")
	for i := range harness.EnvInt("FERMI_RACES", 6) {
		name := fmt.Sprintf("raced-%d", i)
		task := shell(lab, name, "cat admin.token secret.key f; ls -la . ..; mkdir -p logs; echo y > logs/y; true")
		task.Spec.Code = &api.Code{Folder: []string{"shared/race/code", "shared/race", "shared/race/logs"}[i%3]}
		task.Spec.Checkpoint = &api.Checkpoints{Folder: []string{"d", "code/d", "f"}[i%3]}
		task.Spec.Outputs = &api.Outputs{Logs: "logs"}
		w.launch(task)
		w.ends(w.mal, lab, name) // whether it started is its own affair
	}
	enough := shell(lab, "enough", "touch enough")
	enough.Spec.Code = &api.Code{Folder: "shared/race"}
	w.launch(enough)
	w.ends(w.mal, lab, "enough")
	w.ends(w.mal, lab, "racer")
	if log := w.log(lab, "racer"); !strings.Contains(log, "swapped ") {
		w.t.Errorf("nothing was swapped:\n%s", log)
	}
}

// memoryRace exchanges the slots that launchers open for links to what only root may read, while they open them.
func memoryRace(w *world) {
	task := shell(lab, "memory-race", `cd $FERMI_SHM && perl -e '
	my $n = 0;
	for my $k (0 .. 3) { symlink("$ENV{DATA}/admin.token", "link-$k"); open(my $f, ">", "rank-0.$k"); print $f "\0" x 4096; close $f }
	while ($n < $ENV{SWAPS}) { for my $k (0 .. 3) { rename("rank-0.$k", "dir-$k"); rename("link-$k", "rank-0.$k"); rename("rank-0.$k", "link-$k"); rename("dir-$k", "rank-0.$k"); $n += 2 } }
	print "swapped $n times\n"'; exit 3`)
	task.Spec.Checkpoint = &api.Checkpoints{}
	task.Spec.Restart = &api.RestartPolicy{MaxRestarts: 2}
	task.Spec.Roles[0].Env = []api.EnvVar{{Name: "DATA", Value: w.Dir}, {Name: "SWAPS", Value: fmt.Sprint(harness.EnvInt("FERMI_SWAPS", 10_000))}}
	w.launch(task)
	w.ends(w.mal, lab, "memory-race")
	if log := w.log(lab, "memory-race"); !strings.Contains(log, "swapped ") {
		w.t.Errorf("nothing was swapped:\n%s", log)
	}
}

// outputLinks: what is uploaded leads to what only root may read.
func outputLinks(w *world) {
	script := `cd $FERMI_OUTPUT; ln -s $DATA/admin.token token; ln -s $DATA dir; ln -s /etc/shadow shadow; mkfifo pipe; ln $DATA/admin.token hard; mkdir sub; ln -s ../../../../../admin.token sub/t
mkdir -p ../code/logs; ln -s $DATA/secret.key ../code/logs/k
for i in $(seq 1 200); do mkdir a; echo $i > a/f; rm -rf a; ln -s $DATA a; rm a; done; echo done; true`
	task := shell(lab, "outputs", script)
	task.Spec.Outputs = &api.Outputs{Logs: "logs"}
	task.Spec.Roles[0].Env = []api.EnvVar{{Name: "DATA", Value: w.Dir}}
	w.launch(task)
	w.ends(w.mal, lab, "outputs")
}

// memoryLinks: the slots that launchers read and write are links, pipes and folders.
func memoryLinks(w *world) {
	for i, lay := range []string{`ln -s $DATA/admin.token $f`, `mkfifo $f`, `mkdir $f`, `ln -s /etc/shadow $f`, `ln -s $DATA/new-file-of-mallory $f`} {
		name := fmt.Sprintf("memory-%d", i)
		script := fmt.Sprintf(`cd $FERMI_SHM; for r in 0 1; do for k in 0 1 2 3; do for f in rank-$r.$k files for-$r; do rm -rf $f; %s; done; done; done; ls > /dev/null; sleep 1; exit 3`, lay)
		task := shell(lab, name, script)
		task.Spec.Checkpoint = &api.Checkpoints{}
		task.Spec.Restart = &api.RestartPolicy{MaxRestarts: 1}
		task.Spec.Roles[0].Env = []api.EnvVar{{Name: "DATA", Value: w.Dir}}
		w.launch(task)
		w.ends(w.mal, lab, name)
	}
	if _, err := os.Lstat(filepath.Join(w.Dir, "new-file-of-mallory")); err == nil {
		w.t.Error("a file was made through a link")
	}
}

// pipeInPath: who reads a pipe without a writer waits for ever.
func pipeInPath(w *world) {
	lay := shell(lab, "lay-pipe", `rm -rf pkgs; mkdir -p pkgs; mkfifo pkgs/pipe; chmod 777 pkgs/pipe; echo laid`)
	lay.Spec.Code = &api.Code{Folder: "shared"}
	w.launch(lay)
	w.ends(w.mal, lab, "lay-pipe")
	task := shell(lab, "pipes", "echo ran")
	task.Spec.Code = &api.Code{Folder: "shared"}
	task.Spec.Preflight = "warn"
	at := filepath.Join(w.base, "shared", "pkgs", "pipe")
	task.Spec.Roles[0].Env = []api.EnvVar{{Name: "PYTHONPATH", Value: at + ":/proc/self/fd/0:" + at}, {Name: "PATH", Value: at + ":/usr/bin:/bin"}}
	w.launch(task)
	w.says(w.mal, lab, "pipes", "ran")
	w.ends(w.mal, lab, "pipes")
}

// archives whose entries leave the folder they are unpacked in.
func archives(w *world) {
	for i, entries := range [][]tar.Header{
		{{Name: "up", Typeflag: tar.TypeSymlink, Linkname: w.Dir}, {Name: "up/planted", Typeflag: tar.TypeReg}},
		{{Name: "../../planted", Typeflag: tar.TypeReg}},
		{{Name: filepath.Join(w.Dir, "planted"), Typeflag: tar.TypeReg}},
		{{Name: "hard", Typeflag: tar.TypeLink, Linkname: filepath.Join(w.Dir, "admin.token")}},
		{{Name: "hard", Typeflag: tar.TypeLink, Linkname: "../../../../admin.token"}},
		{{Name: "disk", Typeflag: tar.TypeBlock, Devmajor: 254}},
		{{Name: "sh", Typeflag: tar.TypeReg, Mode: 0o4755}},
	} {
		var body bytes.Buffer
		zip := gzip.NewWriter(&body)
		pack := tar.NewWriter(zip)
		for _, h := range entries {
			h.Size = 0
			w.do(pack.WriteHeader(&h))
		}
		w.do(pack.Close(), zip.Close())
		archive, err := w.mal.PutArchive(w.t.Context(), bytes.NewReader(body.Bytes()), int64(body.Len()))
		if err != nil {
			continue // refused at the door
		}
		name := fmt.Sprintf("archive-%d", i)
		task := shell(lab, name, `cat hard up/admin.token; ls -la; find . -perm -4000 -user 0 | grep . && echo ROOT-SETUID; true`)
		task.Spec.Code = &api.Code{Archive: archive.Digest}
		w.launch(task)
		w.ends(w.mal, lab, name)
		if strings.Contains(w.log(lab, name), "ROOT-SETUID") {
			w.t.Errorf("archive %d made a set-uid file of root", i)
		}
	}
	for _, file := range []string{filepath.Join(w.Dir, "planted"), filepath.Join(w.Dir, "engine", "planted"), filepath.Join(w.Dir, "engine", "replicas", "planted")} {
		if _, err := os.Lstat(file); err == nil {
			w.t.Errorf("an archive made %s", file)
		}
	}
}
