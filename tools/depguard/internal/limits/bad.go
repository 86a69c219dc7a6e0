package limits

import _ "allium/protocols/oap" // forbidden
