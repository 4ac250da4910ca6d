package serving

import (
	"fmt"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// ServiceZone is what a zone has of a service.
type ServiceZone struct {
	Zone     string `json:"zone"`
	Replicas int    `json:"replicas,omitempty" minimum:"0" maximum:"1000" doc:"That stand there; 1 when absent. With autoscale a primary zone begins with them, and then has its part of all by its weight."`
	// MinReplicas and MaxReplicas are for services that scale.
	MinReplicas int      `json:"minReplicas,omitempty" minimum:"0" maximum:"1000" doc:"With autoscale, of a primary zone: as many stand there at least, while any are wanted at all; 0 when absent."`
	MaxReplicas int      `json:"maxReplicas,omitempty" minimum:"0" maximum:"1000" doc:"Likewise, at most; any number when absent."`
	Weight      int      `json:"weight,omitempty" minimum:"0" maximum:"1000" doc:"Its share of the requests beside the other zones'; its replicas when absent."`
	Role        ZoneRole `json:"role,omitempty" enum:"primary,backup" doc:"backup: it gets requests only while no primary zone answers. primary when absent."`
	Serves      []string `json:"serves,omitempty" maxItems:"32" doc:"Regions whose requests it gets before others, whatever the weights; a request's region is its X-Fermi-Region, or its gateway's."`
}

// ZoneRole is when a zone gets requests.
type ZoneRole string

// The roles.
const (
	ZonePrimary ZoneRole = "primary"
	ZoneBackup  ZoneRole = "backup"
)

// fillZones completes the zones; their replicas together are the service's.
func (p *ServiceSpec) fillZones() {
	if len(p.Zones) == 0 {
		return
	}
	list, sum := make([]ServiceZone, len(p.Zones)), 0
	for i, z := range p.Zones {
		if z.Replicas == 0 {
			z.Replicas = 1
		}
		if z.Weight == 0 {
			z.Weight = z.Replicas
		}
		if z.Role == "" {
			z.Role = ZonePrimary
		}
		sum += z.Replicas
		list[i] = z
	}
	p.Zones = list
	p.Replicas = min(sum, MaxReplicas+1)
}

func (f *faults) zones(at string, p *ServiceSpec) {
	seen, primary := map[string]bool{}, false
	for i, z := range p.Zones {
		at := fmt.Sprintf("%s[%d]", at, i)
		switch {
		case !api.IsName(z.Zone):
			f.add(at+".zone", "%q is no name of a zone.", "%q 不是合法的可用区名称。", z.Zone)
		case seen[z.Zone]:
			f.add(at+".zone", "The zone %s is named twice.", "可用区 %s 重复出现。", z.Zone)
		}
		seen[z.Zone] = true
		f.count(at+".replicas", z.Replicas, 1, MaxReplicas)
		f.count(at+".weight", z.Weight, 1, 1000)
		switch z.Role {
		case ZonePrimary:
			primary = true
		case ZoneBackup:
		default:
			f.add(at+".role", "primary or backup.", "必须是 primary 或 backup。")
		}
	}
	if len(p.Zones) > 0 && !primary {
		f.add(at+"[0].role", "At least one zone must be primary.", "至少需要一个主可用区（primary）。")
	}
	f.zoneBounds(at, p)
}

// zoneBounds checks how many replicas zones may have of a service that scales.
func (f *faults) zoneBounds(at string, p *ServiceSpec) {
	least, most, bounded := 0, 0, true
	for i, z := range p.Zones {
		at := fmt.Sprintf("%s[%d]", at, i)
		f.count(at+".minReplicas", z.MinReplicas, 0, MaxReplicas)
		f.count(at+".maxReplicas", z.MaxReplicas, 0, MaxReplicas)
		if (z.MinReplicas != 0 || z.MaxReplicas != 0) && (p.Autoscale == nil || z.Role == ZoneBackup) {
			f.add(at+".minReplicas", "Only primary zones of a service with autoscale have minReplicas and maxReplicas; others have replicas.", "只有启用自动伸缩的服务的主可用区可以设置 minReplicas 和 maxReplicas，其他请用 replicas。")
		}
		if z.MaxReplicas != 0 && z.MaxReplicas < z.MinReplicas {
			f.add(at+".minReplicas", "minReplicas is above maxReplicas.", "minReplicas 大于 maxReplicas。")
		}
		if z.Role != ZoneBackup {
			least, most, bounded = least+z.MinReplicas, most+z.MaxReplicas, bounded && z.MaxReplicas > 0
		}
	}
	a := p.Autoscale
	if a == nil || len(p.Zones) == 0 {
		return
	}
	if a.MinReplicas > 0 && least > a.MinReplicas || least > a.MaxReplicas {
		f.add(at, "The zones want %d replicas together; autoscale.minReplicas is %d.", "各可用区合计至少 %d 个副本，而 autoscale.minReplicas 为 %d。", least, a.MinReplicas)
	}
	if bounded && most < a.MaxReplicas {
		f.add(at, "The zones take %d replicas together; autoscale.maxReplicas is %d.", "各可用区合计最多 %d 个副本，而 autoscale.maxReplicas 为 %d。", most, a.MaxReplicas)
	}
}
