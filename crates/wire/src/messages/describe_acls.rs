//! DescribeAcls, API key 29, versions 1 to 3; flexible from 2.
//!
//! KIP-140. 1 adds the pattern's type (KIP-290), 3 the resource type user.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks for access control entries.
    request DescribeAclsRequest, DESCRIBE_ACLS, versions 1..=3, flexible 2..,
        answered by DescribeAclsResponse {
        /// The resource's type; 1 matches any.
        [1..] resource_type_filter: i8,
        /// The resource's name; null matches any.
        [1..] resource_name_filter: Option<String>,
        /// 1 any, 2 all that apply to the name, 3 the name itself, 4 names that begin so.
        [1..] pattern_type_filter: i8 = 3,
        /// The principal; null matches any.
        [1..] principal_filter: Option<String>,
        /// The host; null matches any.
        [1..] host_filter: Option<String>,
        /// The operation's number; 1 in a filter matches any.
        [1..] operation: i8,
        /// 1 any, 2 deny, 3 allow.
        [1..] permission_type: i8,
    }

    /// Answers [`DescribeAclsRequest`].
    response DescribeAclsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [1..] throttle_time_ms: i32,
        /// What went wrong.
        [1..] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [1..] error_message: Option<String>,
        /// The resources.
        [1..] resources: Vec<DescribeAclsResource>,
    }

    /// One element of [`DescribeAclsResponse::resources`].
    struct DescribeAclsResource {
        /// The resource's type: 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user.
        [1..] resource_type: i8,
        /// The resource's name; a broker's is its node id in digits.
        [1..] resource_name: String,
        /// 3 the name itself, 4 names that begin so.
        [1..] pattern_type: i8 = 3,
        /// The entries of the access control list.
        [1..] acls: Vec<AclDescription>,
    }

    /// One element of [`DescribeAclsResource::acls`].
    struct AclDescription {
        /// The principal, for example `User:alice`.
        [1..] principal: String,
        /// The host that the entry is about; `*` is any.
        [1..] host: String,
        /// The operation's number; 1 in a filter matches any.
        [1..] operation: i8,
        /// 1 any, 2 deny, 3 allow.
        [1..] permission_type: i8,
    }
}
