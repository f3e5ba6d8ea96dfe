package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// control handles requests before the simulator. A test can set its behaviour:
//
//	POST /control/busy?requests=20                  answer the next 20 requests with 503
//	POST /control/datastore?name=san-01&away=true   make its files unreadable until away=false
//	POST /control/move?vm=app0001&datastore=san-02  move a VM, as a Storage vMotion does
type control struct {
	model *simulator.Model
	next  http.Handler
	home  string // the folder of the datastores' folders
	user  string
	busy  atomic.Int64
	away  sync.Map // names of datastores
}

func controlled(model *simulator.Model, home string, next http.Handler) *control {
	return &control{model: model, next: next, home: home, user: model.Service.Listen.User.Username()}
}

func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/control/"):
		c.obey(w, r)
	case c.busy.Load() > 0 && c.busy.Add(-1) >= 0:
		w.WriteHeader(http.StatusServiceUnavailable)
	case strings.HasPrefix(r.URL.Path, "/folder/"):
		c.serveFile(w, r)
	default:
		c.next.ServeHTTP(w, r)
	}
}

func (c *control) serveFile(w http.ResponseWriter, r *http.Request) {
	if !c.hasSession(r) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if _, isAway := c.away.Load(r.URL.Query().Get("dsName")); isAway {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	// The simulator redirects requests for a folder to itself, and for every file searches the
	// datastore among all datastores, which takes milliseconds.
	folder := http.Dir(filepath.Join(c.home, r.URL.Query().Get("dsName")))
	http.StripPrefix("/folder/", http.FileServer(folder)).ServeHTTP(w, r)
}

func (c *control) hasSession(r *http.Request) bool {
	cookie, err := r.Cookie(soap.SessionCookieName)
	if err != nil {
		return false
	}
	asked := &types.SessionIsActive{SessionID: strings.Trim(cookie.Value, `"`), UserName: c.user}
	answer := c.model.Map().SessionManager().SessionIsActive(c.model.Service.Context, asked)
	return answer.(*methods.SessionIsActiveBody).Res.Returnval
}

func (c *control) obey(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	switch r.URL.Path {
	case "/control/busy":
		requests, err := strconv.ParseInt(query.Get("requests"), 10, 64)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.busy.Store(requests)
	case "/control/datastore":
		if query.Get("away") == "true" {
			c.away.Store(query.Get("name"), true)
		} else {
			c.away.Delete(query.Get("name"))
		}
	case "/control/move":
		c.move(query.Get("vm"), query.Get("datastore"))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// move sets the location of a VM: the simulator's own RelocateVM_Task does not change its files.
func (c *control) move(name, datastore string) {
	registry := c.model.Map()
	vm := named(registry.All("VirtualMachine"), name).(*simulator.VirtualMachine)
	target := named(registry.All("Datastore"), datastore).Reference()
	files := vm.Config.Files
	files.VmPathName = fmt.Sprintf("[%s] %s/%s.vmx", datastore, name, name)
	files.LogDirectory = fmt.Sprintf("[%s] %s", datastore, name)
	registry.AtomicUpdate(c.model.Service.Context, vm, []types.PropertyChange{
		{Name: "config.files", Val: files},
		{Name: "datastore", Val: []types.ManagedObjectReference{target}},
	})
}

func named(entities []mo.Entity, name string) mo.Entity {
	for _, each := range entities {
		if each.Entity().Name == name {
			return each
		}
	}
	panic("there is no " + name)
}
