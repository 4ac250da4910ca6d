package record

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// The files of a replica's folder.
const (
	FileReplica  = "replica.json"  // engine.Replica, by the engine
	FileEndpoint = "link.json"     // Link, by the engine
	FileLock     = "lock"          // held (flock) by the launcher for life
	FileLauncher = "launcher.json" // Process, by the launcher
	FileGo       = "go.json"       // Go, by the launcher, before it starts anything
	FileStart    = "start.json"    // Start, by the launcher
	FileExit     = "exit.json"     // engine.Exit, by the launcher; by the engine for LauncherLost
	FileDone     = "done.json"     // Done, by the launcher
	FileLog      = "output.log"    // the spooled log, see blob/logbook for the line format
	DirOutput    = "output"        // $FERMI_OUTPUT
	DirCode      = "code"          // unpacked archive
	DirTmp       = "tmp"           // $TMPDIR; /tmp of a replica that is kept apart
	DirVarTmp    = "var-tmp"       // its /var/tmp
	DirHome      = "home"          // its $HOME
	DirHomes     = "homes"         // beside the folder of all replicas: homes that outlive them, by the id of their owner
	DirLayers    = "layers"        // likewise: what was written over their images
	DirAssets    = "assets"        // likewise: versions of datasets and models, by project
	FileOwnLog   = "launcher.log"  // the launcher's own log and stderr
)

// Process is a process that can be told from a later one with the same pid.
type Process struct {
	PID int `json:"pid"`
	// StartTicks is field 22 of /proc/PID/stat.
	StartTicks uint64 `json:"startTicks"`
	BootID     string `json:"bootId"`
	// Cgroup is the replica's own cgroup as the engine made it; "" when there is none.
	Cgroup string `json:"cgroup,omitempty"`
	// Version is a launcher's; "" of others, and of launchers from before it was written.
	Version string `json:"version,omitempty"`
	// HearsFull says that a launcher takes SIGUSR1 for: the disk is full, and your replica filled it.
	HearsFull bool `json:"hearsFull,omitempty"`
}

// Go is the leader's word that a generation of the attempt may start; the newest one.
type Go struct {
	Epoch      int64     `json:"epoch"`
	Attempt    int       `json:"attempt"`
	Generation int64     `json:"generation"`
	At         time.Time `json:"at"`
}

// SharedMemory is $FERMI_SHM, memory of a replica that outlives its ranks' processes. The launcher
// makes and removes it; the engine removes that of a lost launcher.
func SharedMemory(name engine.Name) string { return "/dev/shm/fermi-" + string(name) }

// PeerMemory is where the launcher keeps states of other launchers' ranks, beside its own ranks' memory: no rank can reach it.
func PeerMemory(memory string) string { return memory + ".peers" }

// Start says that the user's processes run: the first rank of the first generation.
type Start struct {
	Process Process   `json:"process"`
	At      time.Time `json:"at"`
	// Up is how long the machine had been up; 0 in records from before it was written.
	Up time.Duration `json:"up,omitempty"`
}

// Ran is how long ago that was by the machine's own clock, which nobody sets; 0 where that is not known: another boot, or
// no record of it.
func (s *Start) Ran() time.Duration { return Since(s.Process.BootID, s.Up) }

// Since is how long ago this machine had been up for so long, in this boot; 0 where that is not known.
func Since(boot string, up time.Duration) time.Duration {
	now, err := BootID()
	if up <= 0 || err != nil || boot != "" && boot != now {
		return 0
	}
	return max(Uptime()-up, 1)
}

// Uptime is how long the machine has been up, time asleep included.
func Uptime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// Tenant is who the user's process is on this machine; zero: who the launcher is.
type Tenant struct {
	UID int `json:"uid"` // and gid
	// IDs is the first of the IDsEach numbers of its project that users inside its images have beside UID; 0: none, and nobody is root in there.
	IDs int `json:"ids,omitempty"`
	// Hide are the platform's own folders.
	Hide []string `json:"hide,omitempty"`
	// Refused says that this machine keeps nobody apart and the replica is not its owner's.
	Refused bool `json:"refused,omitempty"`
}

// IDsEach is how many numbers a project has.
const IDsEach = 1 << 16

// Stop is the engine's wish, in the file StopFile of its epoch.
type Stop struct {
	Grace time.Duration `json:"grace"`
	At    time.Time     `json:"at"`
}

// Done says what was handed over.
type Done struct {
	LogBytes    int64     `json:"logBytes"`
	OutputFiles int       `json:"outputFiles"`
	OutputBytes int64     `json:"outputBytes"`
	At          time.Time `json:"at"`
	// Incomplete says why something could not be handed over, "" when all was.
	Incomplete string `json:"incomplete,omitempty"`
}

// Link is what the machine adds to the replica. Endpoints is the path of a file with one gRPC target
// a line, read again before every dial, so that servers may come and go.
type Link struct {
	Endpoints string `json:"endpoints"`
	// Epochs is the folder that says whose orders count, see CurrentEpoch.
	Epochs string `json:"epochs,omitempty"`
	// Tenant is here and not in a file of its own because a record costs a start two syncs.
	Tenant Tenant `json:"tenant,omitzero"`
	Tiers  Tiers  `json:"tiers,omitzero"`
	// Images is the node's folder of images.
	Images string `json:"images,omitempty"`
	// ImageUID is the uid that keeps them: nobody's, and no project's.
	ImageUID int `json:"imageUid,omitempty"`
	// ImageMost is how many bytes of them the replica's project may have here; 0: no limit.
	ImageMost int64 `json:"imageMost,omitempty"`
	// Assets is the node's folder of datasets and models; "": the replica has them in its own.
	Assets string `json:"assets,omitempty"`
	// Cache is the folder with versions that others of the machine have, too, seen read-only; "": there is none.
	Cache string `json:"cache,omitempty"`
	// Own says that the machine is the replica's alone, as a pod is: versions of datasets and models are shown there by links.
	Own bool `json:"own,omitempty"`
	// Folders are those of the machine that the replica's project was granted.
	Folders []api.NamedFolder `json:"folders,omitempty"`
	// Network is the replica's own; zero: it is on the machine's.
	Network Network `json:"network,omitzero"`
	// Address is where others reach a replica that is on the machine's network; "": by the loopback.
	Address string `json:"address,omitempty"`
}

// Spec is what a launcher must know that has no folder with the records.
type Spec struct {
	Replica engine.Replica `json:"replica"`
	Link    Link           `json:"link"`
}

// Network is the place of a replica in the network of its project on this machine.
type Network struct {
	Address netip.Prefix `json:"address"` // with the length of its block
	Gateway netip.Addr   `json:"gateway"`
	Bridge  string       `json:"bridge"`           // that it is connected to
	Link    string       `json:"link"`             // its interface on the machine's side
	Server  string       `json:"server,omitempty"` // URL at which the API is open to it
}

// Tiers are the places that checkpoints of a node's replicas go to. There is no secret in it.
type Tiers struct {
	Local  string     `json:"local,omitempty"` // a folder on the node's disk
	Shared SharedTier `json:"shared,omitzero"`
}

// SharedTier is a store that all nodes reach; zero: there is none.
type SharedTier struct {
	Place       string `json:"place,omitempty"` // a folder, or s3://bucket/prefix
	Endpoint    string `json:"endpoint,omitempty"`
	Region      string `json:"region,omitempty"`
	Credentials string `json:"credentials,omitempty"` // path of a file that is read for each request
	Rate        int64  `json:"rate,omitempty"`        // bytes a second of one launcher; 0: no limit
	// Signed says that a server proves each request, and the launcher has no credentials.
	Signed bool `json:"signed,omitempty"`
}
