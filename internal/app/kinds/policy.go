package kinds

import (
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/api/v1/quota"
	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// PolicyOf reads what an operator says about environments.
func PolicyOf(s conf.Envs) (p devenv.Policy, err error) {
	var faults []fault.Field
	refuse := func(key, value, en, zh string) {
		faults = append(faults, fault.Field{Path: key, Message: fault.T("%[1]s: %[2]s", "%[1]s：%[3]s", strconv.Quote(value), en, zh)})
	}
	span := func(key, value string) time.Duration {
		if value == "" {
			return 0
		}
		d, err := api.ParseDuration(value)
		if err != nil || d.Std() < time.Minute {
			refuse(key, value, "expected a time of at least one minute, such as 2h", "应为至少一分钟的时长，例如 2h")
		}
		return d.Std()
	}
	bytes := func(key, value string) api.Bytes {
		if value == "" || value == "0" {
			return 0
		}
		n, err := api.ParseBytes(value)
		if err != nil || n < 0 {
			refuse(key, value, "expected an amount such as 50Gi", "应为数量，例如 50Gi")
		}
		return n
	}
	count := func(key string, value, most int) int {
		if value < 0 || value > most {
			refuse(key, strconv.Itoa(value), "expected a number from 0 to "+strconv.Itoa(most), "应为 0 到 "+strconv.Itoa(most)+" 之间的数字")
		}
		return value
	}
	p = devenv.Policy{
		IdleAfter: span("env.idle.after", s.IdleAfter), IdleMost: span("env.idle.most", s.IdleMost),
		Most: devenv.Amounts{
			Accelerators: count("env.most.accelerators", s.Accelerators, devenv.MaxAccelerators), CPU: api.MilliCPU(count("env.most.cpu", s.Cores, devenv.MaxCores)) * 1000,
			Memory: bytes("env.most.memory", s.Memory), Storage: bytes("env.most.storage", s.Storage),
		},
		User: quota.Environments{Running: count("env.user.running", s.UserRunning, 1_000_000), Devices: count("env.user.devices", s.UserDevices, 1_000_000), Storage: bytes("env.user.storage", s.UserStorage)},
	}
	for _, prefix := range s.Images {
		if !image.IsPrefix(prefix) {
			refuse("images.allow", prefix, "expected a registry or the beginning of a name, such as registry.example.org/team", "应为镜像仓库或名称开头，例如 registry.example.org/team")
		}
	}
	p.Images = s.Images
	if len(faults) == 0 && p.IdleMost > 0 && p.IdleAfter > p.IdleMost {
		refuse("env.idle.after", s.IdleAfter, "longer than env.idle.most", "超过 env.idle.most")
	}
	if len(faults) > 0 {
		return p, fault.New(fault.Invalid, "BadSettings", fault.T("%[1]s %[2]s", "%[1]s %[3]s", faults[0].Path, faults[0].Message.EN, faults[0].Message.ZH)).WithFields(faults...)
	}
	return p, nil
}
