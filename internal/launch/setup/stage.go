package setup

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/imagejob"
	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Stage is what the ranks of a generation are started with.
type Stage struct {
	Replica engine.Replica
	Dir     string
	Env     []string
	Shell   []string   // Env of shells
	Each    [][]string // of each rank
}

// Stage is what ranks of a generation would be started with; it changes nothing.
func (s *Supplies) Stage(g link.Generation, at RankPlace) (out Stage, err error) {
	if out.Dir, err = s.at.Home.WorkDir(s.at.Home.Replica); err != nil {
		return out, err
	}
	if dir := s.at.over.startDir(s.at.Home.Dir, s.at.Home.Replica); dir != "" {
		out.Dir = dir
	}
	if out.Replica, err = fill(s.at.Home.Replica, s.at.Home.Dir, s.at.Place.link(), g); err != nil {
		return out, fmt.Errorf("recipe: %w", err)
	}
	if out.Replica, err = s.at.Home.withPackages(out.Replica); err != nil {
		return out, err
	}
	out.Env, out.Each = environ(out.Replica, s.at.Home.Dir, s.secrets, s.creds, s.at.base(), s.at.over.userName(s.at.Home.Replica.Project), s.at.Place), rankEnviron(out.Replica, g, at)
	if s.at.image != nil {
		out.Env = append(out.Env, imagejob.Digest+"="+s.at.image.Digest)
	}
	if s.at.over.kept != "" {
		out.Env = append(out.Env, devenv.LayerFile+"="+filepath.Join(s.at.Home.tmp(), fileLayer), devenv.LayerImage+"="+s.at.image.Digest)
	}
	volumes, err := volumesOf(s.at.Home.Replica, s.at.Home.Folders)
	if err != nil { // also where nothing is mounted
		return out, err
	}
	out.Env = append(out.Env, volumeVariables(s.at.Home.Replica, volumes, s.at.Home.Tenant.UID != 0)...)
	out.Env = append(out.Env, s.at.data.variables(s.at.Home.Tenant.UID != 0)...)
	out.Shell = s.at.over.shellEnv(out.Env)
	return out, nil
}

// RankPlace is where the ranks of a launcher find what is kept for them.
type RankPlace struct {
	Socket string // $FERMI_SOCKET
	Memory string // $FERMI_SHM
	Resume string // $FERMI_RESUME_FROM; "": none
	Port   int    // $FERMI_PORT
	Peers  bool   // their states are kept by other launchers, too
}

// rankEnviron is what each of the launcher's ranks has for itself. What torch and its like read is
// the user's or the recipe's to set otherwise; a rank that is alone is not told that it is distributed.
func rankEnviron(replica engine.Replica, g link.Generation, at RankPlace) [][]string {
	own := map[string]bool{}
	for _, v := range replica.Env {
		own[v.Name] = true
	}
	var recipes [][]api.EnvVar
	if r := replica.Recipe; r != nil {
		for _, v := range r.Env {
			own[v.Name] = own[v.Name] || len(r.Each) == 0
		}
		recipes = r.Each
	}
	host, port, _ := net.SplitHostPort(g.Lead) // link has checked it
	n := max(replica.Ranks, 1)
	each := make([][]string, n)
	for i := range each {
		env := newEnv()
		rank := strconv.Itoa(g.FirstRank + i)
		env.set("FERMI_RANK", rank)
		env.set("FERMI_WORLD_SIZE", strconv.Itoa(g.World))
		env.set("FERMI_GENERATION", strconv.FormatInt(g.Number, 10))
		env.set("FERMI_ATTEMPT", strconv.FormatInt(g.Number, 10)) // of the user: a restart is a restart
		env.set("FERMI_SOCKET", at.Socket)
		env.set("FERMI_SHM", at.Memory)
		env.set("FERMI_SEALS", "1")
		if at.Resume != "" {
			env.set("FERMI_RESUME_FROM", at.Resume)
		}
		if at.Peers {
			env.set("FERMI_SLOTS", strconv.Itoa(shm.PeerSlots))
		}
		env.set("FERMI_PORT", strconv.Itoa(at.Port))
		if replica.Serve != nil && !own["PORT"] { // as most servers know it
			env.set("PORT", strconv.Itoa(at.Port))
		}
		for _, role := range g.Roles {
			roleEnviron(env, role)
		}
		if i < len(recipes) {
			for _, v := range recipes[i] {
				if !own[v.Name] {
					env.set(v.Name, v.Value)
				}
			}
		}
		if e := replica.Elastic; e != nil {
			env.set("FERMI_ELASTIC", "1")
			env.set("FERMI_BASE_WORLD_SIZE", strconv.Itoa(e.World))
			env.set("FERMI_BATCH", string(e.Batch))
		}
		if (g.World > 1 || replica.Elastic != nil) && (replica.Recipe == nil || !replica.Recipe.Bare) {
			for name, value := range map[string]string{
				"RANK": rank, "LOCAL_RANK": strconv.Itoa(i), "WORLD_SIZE": strconv.Itoa(g.World), "LOCAL_WORLD_SIZE": strconv.Itoa(n),
				"GROUP_RANK": strconv.Itoa(g.Group), "GROUP_WORLD_SIZE": strconv.Itoa(g.Groups), "MASTER_ADDR": host, "MASTER_PORT": port,
			} {
				if _, made := env.values[name]; !made && !own[name] {
					env.set(name, value)
				}
			}
		}
		each[i] = env.list()
	}
	return each
}
