package serving

import (
	api "github.com/fermi-cluster/fermi/api/v1"
)

// ServiceZone is what a zone has of a service.
type ServiceZone struct {
	Zone     string   `json:"zone"`
	Replicas int      `json:"replicas,omitempty" minimum:"0" maximum:"1000" doc:"That stand there; 1 when absent."`
	Weight   int      `json:"weight,omitempty" minimum:"0" maximum:"1000" doc:"Its share of the requests beside the other zones'; its replicas when absent."`
	Role     ZoneRole `json:"role,omitempty" enum:"primary,backup" doc:"backup: it gets requests only while no primary zone answers. primary when absent."`
	Serves   []string `json:"serves,omitempty" maxItems:"32" doc:"Regions whose requests it gets before others, whatever the weights; a request's region is its X-Fermi-Region, or its gateway's."`
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
	for _, z := range p.Zones {
		if !api.IsName(z.Zone) || seen[z.Zone] {
			f.add(at+".zone", "%q is no zone, or is named twice.", "%q 不是合法的可用区，或重复出现。", z.Zone)
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
		f.add(at+".role", "At least one zone must be primary.", "至少需要一个主可用区（primary）。")
	}
	if len(p.Zones) > 0 && p.Autoscale != nil {
		f.add(at, "A service that is spread over zones by hand does not scale by itself; leave autoscale or zones out.", "按可用区指定副本数的服务不能自动伸缩：autoscale 与 zones 只能二选一。")
	}
}
