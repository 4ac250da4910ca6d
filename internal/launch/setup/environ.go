package setup

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// fileHyper is $FERMI_HP_FILE within the replica's folder.
const fileHyper = "hyperparameters.json"

// instantEvery is the one variable of ours that users set: steps between two instant saves.
const instantEvery = "FERMI_INSTANT_EVERY"

// ofArray begins the variables that tasks of an array bring with them.
const ofArray = "FERMI_ARRAY_"

// inherited are the launcher's own variables that the process gets too.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ"}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// base is what the environment begins with: that of the image, or of our own what is inherited.
func (e *Enclosure) base() (list []string) {
	if e.image != nil && e.Home.Replica.Images != engine.ImagePull {
		return e.image.Env
	}
	for _, name := range inherited {
		list = append(list, name+"="+os.Getenv(name))
	}
	return list
}

// environ builds the process's environment. Later ones win: the base, ours, then the user's; but the marks
// by which we find the tree stay ours.
func environ(r engine.Replica, dir string, secrets map[api.SecretRef]string, creds credentials, base []string, user string, at Place) []string {
	env := newEnv()
	env.set("PATH", defaultPath)
	for _, kv := range base {
		if name, v, ok := strings.Cut(kv, "="); ok && name != "" && v != "" && !strings.HasPrefix(name, "FERMI_") {
			env.set(name, v)
		}
	}
	env.set("FERMI_TASK", r.Task)
	env.set("FERMI_TASK_ID", r.TaskID)
	env.set("FERMI_PROJECT", r.Project)
	env.set("FERMI_ROLE", r.Role)
	env.set("FERMI_REPLICA", string(r.Name))
	env.set("FERMI_INDEX", strconv.Itoa(r.Index))
	env.set("FERMI_NODE", r.Node)
	env.set("FERMI_ZONE", r.Zone)
	if address := at.Reach(); address != "" {
		env.set("FERMI_ADDRESS", address)
	}
	if at.Server != "" {
		env.set("FERMI_SERVER", at.Server)
		reaches(env, dir)
	}
	env.set("FERMI_OUTPUT", filepath.Join(dir, record.DirOutput))
	env.set("FERMI_HP_FILE", filepath.Join(dir, fileHyper))
	if len(r.SecretFiles) > 0 {
		env.set("FERMI_SECRETS", filepath.Join(dir, dirSecrets))
	}
	for name, value := range creds.variables(filepath.Join(dir, dirSecrets)) {
		env.set(name, value)
	}
	if _, own := env.values["PYTHONUNBUFFERED"]; !own { // or what Python prints is seen only when 8 KiB of it are there
		env.set("PYTHONUNBUFFERED", "1")
	}
	env.set("TMPDIR", filepath.Join(dir, record.DirTmp))
	if r.UID != 0 { // behind its wall
		env.set("TMPDIR", "/tmp")
		env.set("HOME", filepath.Join(dir, record.DirHome))
		env.set("USER", user)
		env.set("LOGNAME", user)
	}
	if home := HomeOf(dir, r); home != "" {
		env.set("HOME", home)
	}
	names := make([]string, 0, len(r.HyperParameters))
	for name := range r.HyperParameters {
		names = append(names, name)
	}
	slices.Sort(names) // of two names with one spelling the later wins, always the same
	for _, name := range names {
		env.set(api.HyperParameterEnv(name), hyperText(r.HyperParameters[name]))
	}
	for name, value := range recipe.VisibleDevices(r.Devices) {
		env.set(name, value)
	}
	if r.Recipe != nil {
		env.set("FERMI_RECIPE", filepath.Join(dir, dirRecipe))
		if len(r.Recipe.Each) == 0 {
			for _, v := range r.Recipe.Env {
				env.set(v.Name, v.Value)
			}
		}
	}
	for _, v := range r.Env {
		if strings.HasPrefix(v.Name, "FERMI_") && v.Name != instantEvery && !strings.HasPrefix(v.Name, ofArray) {
			continue
		}
		if v.ValueFrom != nil {
			v.Value = secrets[*v.ValueFrom]
		}
		env.set(v.Name, v.Value)
	}
	if wantsSDK(r) {
		path := filepath.Join(dir, dirSDK)
		if own := env.values["PYTHONPATH"]; own != "" {
			path = own + ":" + path
		}
		if r.Instant { // found before any other: every interpreter of the task, also those that others start
			path = filepath.Join(dir, dirSDK, dirInstant) + ":" + path
			env.set("FERMI_INSTANT", "auto")
		}
		env.set("PYTHONPATH", path)
	}
	env.set("PATH", env.values["PATH"]+":"+filepath.Join(dir, dirTool))
	if _, libraries := recipe.Driver(r.Devices); r.Image != "" && len(libraries) > 0 {
		env.set("LD_LIBRARY_PATH", strings.TrimPrefix(env.values["LD_LIBRARY_PATH"]+":"+dirDriver, ":"))
	}
	return env.list()
}

// env keeps the order of first setting.
type env struct {
	names  []string
	values map[string]string
}

func newEnv() *env { return &env{values: map[string]string{}} }

func (e *env) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *env) list() []string {
	list := make([]string, len(e.names))
	for i, n := range e.names {
		list[i] = n + "=" + e.values[n]
	}
	return list
}

// hyperText is the value as a shell would want it: strings bare, all else as JSON writes it.
func hyperText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// writeHyper writes $FERMI_HP_FILE.
func writeHyper(r engine.Replica, dir string) error {
	hp := r.HyperParameters
	if hp == nil {
		hp = map[string]any{}
	}
	data, err := json.MarshalIndent(hp, "", "  ")
	if err != nil {
		return fmt.Errorf("encode hyper-parameters: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, fileHyper), append(data, '\n'), 0o600)
}

// What a rank of a task with several roles knows of each: as variables when it starts, and over its
// socket when replicas are elsewhere later on.

// roleEnviron sets FERMI_ROLE_<NAME>_*.
func roleEnviron(env *env, r link.Role) {
	name := "FERMI_ROLE_" + strings.ToUpper(strings.ReplaceAll(r.Name, "-", "_")) + "_"
	hosts := make([]string, len(r.Addresses))
	for i, address := range r.Addresses {
		hosts[i], _, _ = net.SplitHostPort(address) // link has checked it; "": not known
	}
	env.set(name+"ADDRS", strings.Join(r.Addresses, ","))
	env.set(name+"HOSTS", strings.Join(hosts, ","))
	env.set(name+"REPLICAS", strconv.Itoa(r.Replicas))
	env.set(name+"RANKS", strconv.Itoa(r.Ranks))
}
