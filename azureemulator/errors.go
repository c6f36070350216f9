// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"net/http"
	"time"
)

// Error is a refusal in Resource Manager's form. Clients distinguish refusals by
// status, code and, for quota, by phrases of the message: all three are kept as
// the real services have them.
type Error struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Target  string `json:"target,omitempty"`
	// Details is the list some services add. Flat leaves out the "error"
	// envelope, as Compute does when it throttles.
	Details []ErrorDetail `json:"details,omitempty"`
	Flat    bool          `json:"flat,omitempty"`
	// header is sent along.
	header http.Header
}

// ErrorDetail is one entry of an error's details.
type ErrorDetail struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Target  string `json:"target,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message) }

// detail is the error as it stands inside "error", and inside an operation.
func (e *Error) detail() map[string]any {
	detail := map[string]any{"code": e.Code, "message": e.Message}
	if e.Target != "" {
		detail["target"] = e.Target
	}
	if len(e.Details) > 0 {
		detail["details"] = e.Details
	}
	return detail
}

func (e *Error) view() map[string]any {
	if e.Flat {
		return e.detail()
	}
	return map[string]any{"error": e.detail()}
}

func refuse(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

func badRequest(code, format string, args ...any) *Error {
	return refuse(http.StatusBadRequest, code, format, args...)
}

func conflict(code, format string, args ...any) *Error {
	return refuse(http.StatusConflict, code, format, args...)
}

func notFound(code, format string, args ...any) *Error {
	return refuse(http.StatusNotFound, code, format, args...)
}

func invalidParameter(target, format string, args ...any) *Error {
	e := badRequest("InvalidParameter", format, args...)
	e.Target = target
	return e
}

func invalidContent(err error) *Error {
	return badRequest("InvalidRequestContent", "The request content was invalid and could not be deserialized: '%v'.", err)
}

func resourceNotFound(kind, name, group string) *Error {
	return notFound("ResourceNotFound", "The Resource '%s/%s' under resource group '%s' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix", kind, name, group)
}

func parentNotFound(kind, name string) *Error {
	return notFound("ParentResourceNotFound", "Can not perform requested operation on nested resource. Parent resource '%s' of type '%s' not found.", name, kind)
}

func changeNotAllowed(property string) *Error {
	e := conflict("PropertyChangeNotAllowed", "Changing property '%s' is not allowed.", property)
	e.Target = property
	return e
}

// skuNotAvailable is what Compute says of a size that is out of stock, is
// restricted, or is not offered in the zone.
func skuNotAvailable(size, location string) *Error {
	return conflict("SkuNotAvailable", "The requested VM size for resource 'Following SKUs have failed for Capacity Restrictions: %s' is currently not available in location '%s'. Please try another size or deploy to a different location or different zone. See https://aka.ms/azureskunotavailable for details.", size, location)
}

func invalidReference(referenced, by string) *Error {
	return badRequest("InvalidResourceReference", "Resource %s referenced by resource %s was not found. Please make sure that the referenced resource exists, and that both resources are in the same region.", referenced, by)
}

func subnetIsFull(name, prefix string, wanted int) *Error {
	return badRequest("SubnetIsFull", "Subnet %s with address prefix %s does not have enough capacity for %d IP addresses.", name, prefix, wanted)
}

func nicInUse(nic, user string) *Error {
	return badRequest("NicInUse", "Network Interface %s is used by existing resource %s. In order to delete the network interface, it must be dissociated from the resource. To learn more, see aka.ms/deletenic.", nic, user)
}

func nicReserved(vm string, left time.Duration) *Error {
	return badRequest("NicReservedForAnotherVm", "Nic(s) in request is reserved for another Virtual Machine for 180 seconds. Please provide another nic(s) or retry after 180 seconds. Reserved VM: %s. Time left: %s.", vm, left.Round(time.Second))
}

// preempted ends an operation that a deletion overtook.
func preempted() *Error {
	return conflict("OperationPreempted", "The operation has been preempted by a more recent operation.")
}
