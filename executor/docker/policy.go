package docker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/registry"

	"github.com/haulier/haulier"
)

// Policy says what jobs may ask of a worker's engine. The zero value allows nothing, not even an image.
type Policy struct {
	// Images are patterns of the names of images, as jobs give them: * is anything but a slash, ** at the end anything,
	// and * alone is every image.
	Images []string `json:"images,omitempty"`
	// Network is the one that a job gets which names none, such as none. Empty: the engine's own choice.
	Network string `json:"network,omitempty"`
	// Networks are those that a job may name beside none, bridge and default; host is the worker's machine's own.
	Networks []string `json:"networks,omitempty"`
	// Mounts are paths of the engine's machine that jobs may mount, each as it stands here and not what is below it; with :ro
	// for reading alone.
	Mounts []string `json:"mounts,omitempty"`
	// Volumes are patterns of the names of volumes that jobs may mount. They stay after the job.
	Volumes []string `json:"volumes,omitempty"`
	// Capabilities may be added, such as NET_ADMIN.
	Capabilities []string `json:"capabilities,omitempty"`
	Privileged   bool     `json:"privileged,omitempty"`
	// Allow names further fields of HostConfig that jobs may set to anything, such as Devices or PidMode.
	Allow []string `json:"allow,omitempty"`
	// Memory and CPUs are the most that a job may ask for, and what it gets that does not: bytes and numbers of processors. Zero: no bound.
	Memory int64   `json:"memory,omitempty"`
	CPUs   float64 `json:"cpus,omitempty"`
	// Logins are those that jobs may name to fetch images.
	Logins map[string]Login `json:"logins,omitempty"`
}

// Login is an account at a registry. The password is in a file, which is read each time.
type Login struct {
	Registry     string `json:"registry,omitempty"` // host; empty: Docker Hub
	Username     string `json:"username"`
	PasswordFile string `json:"password_file"`
}

const maxPolicy = 1 << 20 // bytes of a policy file

// ReadPolicy reads a policy file: a JSON object of the fields of Policy. The error wraps haulier.ErrInvalid, or is that of the file.
func ReadPolicy(file string) (p Policy, err error) {
	st, err := os.Stat(file)
	if err != nil {
		return p, err
	}
	if st.Size() > maxPolicy {
		return p, fmt.Errorf("%w: %s has more than %d bytes", haulier.ErrInvalid, file, maxPolicy)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("%w: %s: %v", haulier.ErrInvalid, file, err)
	}
	for _, name := range p.Allow {
		if _, ok := reflect.TypeFor[container.HostConfig]().FieldByName(name); !ok {
			return p, fmt.Errorf("%w: %s: allow: HostConfig has no field %s", haulier.ErrInvalid, file, name)
		}
	}
	return p, nil
}

// free are the fields of HostConfig that give a container nothing which it would not have, but bounds of it.
var free = []string{
	"BlkioDeviceReadBps", "BlkioDeviceReadIOps", "BlkioDeviceWriteBps", "BlkioDeviceWriteIOps", "BlkioWeight", "BlkioWeightDevice",
	"CapDrop", "CPUPeriod", "CPUQuota", "CPUShares", "CpusetCpus", "CpusetMems", "DNS", "DNSOptions", "DNSSearch", "ExtraHosts", "Init",
	"Memory", "MemoryReservation", "MemorySwap", "MemorySwappiness", "NanoCPUs", "PidsLimit", "ReadonlyRootfs", "ShmSize", "Tmpfs", "Ulimits",
}

// judged are those that check looks into.
var judged = []string{"Binds", "CapAdd", "Mounts", "NetworkMode", "Privileged"}

// check says what of a config is not allowed, or "", and puts in the bounds that it does not name.
func (p *Policy) check(req *container.CreateRequest) (why string) {
	c, h := req.Config, req.HostConfig
	switch {
	case c.Tty:
		return "Tty: a job has no terminal: leave it out"
	case !p.image(c.Image):
		return denied("the image "+c.Image, "images")
	case h.Privileged && !p.Privileged:
		return denied("a privileged container", "privileged")
	case !p.network(string(h.NetworkMode)):
		return denied("the network "+string(h.NetworkMode), "networks")
	}
	for name := range c.Labels {
		if strings.HasPrefix(name, labelPrefix) {
			return fmt.Sprintf("the label %s is for the worker: names that begin with %s are its own", name, labelPrefix)
		}
	}
	for _, capability := range h.CapAdd {
		if !p.capability(capability) {
			return denied("the capability "+capability, "capabilities")
		}
	}
	if req.NetworkingConfig != nil {
		for name := range req.NetworkingConfig.EndpointsConfig {
			if !p.network(name) {
				return denied("the network "+name, "networks")
			}
		}
	}
	for _, check := range []func(*container.HostConfig) string{p.binds, p.mounts, p.rest, p.bounds} {
		if why := check(h); why != "" {
			return why
		}
	}
	return ""
}

func denied(what, list string) string {
	return fmt.Sprintf("this worker's policy does not allow %s: whoever runs the worker may add it to %s of its policy file", what, list)
}

func (p *Policy) image(name string) bool {
	return slices.ContainsFunc(p.Images, func(pattern string) bool { return matches(pattern, name) })
}

func matches(pattern, name string) bool {
	if pattern == "*" {
		return true
	}
	if prefix, ok := strings.CutSuffix(pattern, "**"); ok {
		return strings.HasPrefix(name, prefix)
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// network also lets pass what is no network of anybody else's.
func (p *Policy) network(name string) bool {
	return slices.Contains([]string{"", "none", "bridge", "default"}, name) || slices.Contains(p.Networks, name)
}

func (p *Policy) capability(name string) bool {
	bare := func(s string) string { return strings.TrimPrefix(strings.ToUpper(s), "CAP_") }
	return slices.ContainsFunc(p.Capabilities, func(s string) bool { return bare(s) == bare(name) })
}

// host reports whether a path of the engine's machine may be mounted.
func (p *Policy) host(source string, readOnly bool) bool {
	source = path.Clean(source)
	return slices.ContainsFunc(p.Mounts, func(m string) bool {
		allowed, forReading := strings.CutSuffix(m, ":ro")
		return path.Clean(allowed) == source && (readOnly || !forReading)
	})
}

func (p *Policy) volume(name string) bool {
	return slices.ContainsFunc(p.Volumes, func(pattern string) bool { return matches(pattern, name) })
}

func (p *Policy) binds(h *container.HostConfig) string {
	for _, b := range h.Binds {
		parts := strings.Split(b, ":")
		if len(parts) < 2 || len(parts) > 3 {
			return fmt.Sprintf("Binds: %q is not of the form SOURCE:TARGET or SOURCE:TARGET:ro", b)
		}
		readOnly := len(parts) == 3 && slices.Contains(strings.Split(parts[2], ","), "ro")
		switch source := parts[0]; {
		case strings.HasPrefix(source, "/") && !p.host(source, readOnly):
			return denied("a mount of "+source+writable(readOnly), "mounts")
		case !strings.HasPrefix(source, "/") && !p.volume(source):
			return denied("the volume "+source, "volumes")
		}
	}
	return ""
}

func writable(readOnly bool) string {
	if readOnly {
		return ""
	}
	return " for writing"
}

func (p *Policy) mounts(h *container.HostConfig) string {
	for i := range h.Mounts {
		m := &h.Mounts[i]
		switch m.Type {
		case mount.TypeTmpfs:
		case mount.TypeBind:
			if !p.host(m.Source, m.ReadOnly) {
				return denied("a mount of "+m.Source+writable(m.ReadOnly), "mounts")
			}
		case mount.TypeVolume:
			if m.Source != "" && !p.volume(m.Source) {
				return denied("the volume "+m.Source, "volumes")
			}
			if m.VolumeOptions != nil && m.VolumeOptions.DriverConfig != nil {
				return "Mounts: a volume with a driver of the job's choice may be any folder of the machine: leave out DriverConfig"
			}
		case mount.TypeImage:
			if !p.image(m.Source) {
				return denied("the image "+m.Source, "images")
			}
		default:
			return fmt.Sprintf("Mounts: the type %q is none of tmpfs, bind, volume, image", m.Type)
		}
	}
	return ""
}

// rest lets no field pass that is not known to be harmless, as those of engines to come.
func (p *Policy) rest(h *container.HostConfig) string {
	v := reflect.ValueOf(h).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Anonymous || v.FieldByIndex(f.Index).IsZero() || slices.Contains(free, f.Name) || slices.Contains(judged, f.Name) || slices.Contains(p.Allow, f.Name) {
			continue
		}
		return denied("HostConfig."+f.Name, "allow")
	}
	return ""
}

// bounds keeps memory and processors within the policy's.
func (p *Policy) bounds(h *container.HostConfig) string {
	if p.Memory > 0 {
		if h.Memory == 0 {
			h.Memory = p.Memory
		}
		if h.Memory > p.Memory || h.MemorySwap < 0 {
			return denied(fmt.Sprintf("%d bytes of memory, or swap without a bound", h.Memory), "memory")
		}
	}
	if p.CPUs > 0 {
		most := int64(p.CPUs * 1e9)
		if h.CPUQuota != 0 || h.CPUPeriod != 0 {
			return "CpuQuota and CpuPeriod can't be compared with the bound of this worker's policy: use NanoCpus"
		}
		if h.NanoCPUs == 0 {
			h.NanoCPUs = most
		}
		if h.NanoCPUs > most {
			return denied(fmt.Sprintf("%g processors", float64(h.NanoCPUs)/1e9), "cpus")
		}
	}
	return ""
}

// login is what the engine is told to log in with; why: there is no such login.
func (p *Policy) login(name string) (auth, why string) {
	if name == "" {
		return "", ""
	}
	l, ok := p.Logins[name]
	if !ok {
		return "", denied("the login "+name, "logins")
	}
	b, err := os.ReadFile(l.PasswordFile)
	if err != nil {
		return "", fmt.Sprintf("login %s: its password can't be read: %v", name, err)
	}
	auth, err = authconfig.Encode(registry.AuthConfig{Username: l.Username, Password: strings.TrimSpace(string(b)), ServerAddress: l.Registry})
	if err != nil {
		return "", fmt.Sprintf("login %s: %v", name, err)
	}
	return auth, ""
}
