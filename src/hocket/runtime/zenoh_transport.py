"""Messages between processes over zenoh, for robots that have it already. Needs the extra `zenoh`.

Listens at the agent's own address and connects to those of the others; nobody is looked for by multicast. Everything
that distinguishes a run (its name, task and deciders) is part of the keys, so that other runs are not heard.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from random import Random
from typing import Any

from hocket.errors import HocketError, SettingsError, needs_extra
from hocket.runtime.codec import LARGEST_MESSAGE, MessageError, decode, encode, fits
from hocket.runtime.plan import Plan
from hocket.runtime.protocol import Message
from hocket.runtime.transport import LOCAL, LOOPBACK, Security, split_address


class ZenohTransport:
    """An agent's connections to all others, as `Transport` has them."""

    def __init__(
        self,
        plan: Plan,
        agent: str,
        addresses: Mapping[str, str],
        greeting: Mapping[str, str],
        receive: Callable[[int, Message], None],
        security: Security = LOCAL,
        loss: float = 0.0,
    ) -> None:
        self.plan, self.agent, self.addresses, self.receive = plan, agent, addresses, receive
        self.security, self.loss, self.random = security, loss, Random()
        self.root = f"hocket/{sha256(json.dumps(dict(greeting), sort_keys=True).encode()).hexdigest()[:32]}"
        self.number = plan.agents.index(agent)
        self.refused: dict[str, str] = {}
        self.bytes_sent = self.messages_sent = 0
        self.session: Any = None

    async def start(self) -> None:
        """Open a session, and listen to what is for this agent."""
        with needs_extra("the transport zenoh", "zenoh"):
            import zenoh
        config = zenoh.Config()
        for key, value in self._config().items():
            config.insert_json5(key, json.dumps(value))
        loop = asyncio.get_running_loop()

        def take(sample: Any) -> None:  # noqa: ANN401 - in a thread of zenoh's
            data = sample.payload.to_bytes()
            sender = str(sample.key_expr).rpartition("/")[2]
            loop.call_soon_threadsafe(self._take, sender, data)

        try:
            self.session = await asyncio.to_thread(zenoh.open, config)
            self.session.declare_subscriber(f"{self.root}/{self.number}/*", take)
        except zenoh.ZError as error:
            raise HocketError(f"cannot listen at {self.addresses[self.agent]}: {str(error)[:200]}") from None

    def _config(self) -> dict[str, object]:
        address, folder = self.addresses[self.agent], self.security.folder
        host, _ = split_address(address, "peers")
        if folder is None and host not in LOOPBACK and not self.security.insecure:
            rule = "TCP beyond this machine needs certificates (hocket keys), or --insecure"
            raise SettingsError(f"{rule}, got the address {address}")
        kind = "tcp" if folder is None else "tls"
        others = [f"{kind}/{self.addresses[agent]}" for agent in self.plan.agents if agent != self.agent]
        config: dict[str, object] = {
            "mode": "peer",
            "listen/endpoints": [f"{kind}/{address}"],
            "connect/endpoints": others,
            "connect/exit_on_failure": False,
            "connect/timeout_ms": 0,
            "scouting/multicast/enabled": False,
            "scouting/gossip/enabled": False,
        }
        if folder is not None:
            self.security.context(self.agent, server=True)  # says what is missing
            certificate, key = str(folder / f"{self.agent}.crt"), str(folder / f"{self.agent}.key")
            config["transport/link/tls"] = {
                "root_ca_certificate": str(folder / "ca.crt"),
                **{f"{side}_certificate": certificate for side in ("listen", "connect")},
                **{f"{side}_private_key": key for side in ("listen", "connect")},
                "enable_mtls": True,
                "verify_name_on_connect": False,
            }
        return config

    def send(self, receiver: int, message: Message) -> None:
        """Send a message; whoever is not there does not get it, and the protocol sends again."""
        if self.session is None or (self.loss and self.random.random() < self.loss):
            return
        data = encode(message)
        self.bytes_sent += len(data)
        self.messages_sent += 1
        self.session.put(f"{self.root}/{receiver}/{self.number}", data)

    def _take(self, sender: str, data: bytes) -> None:
        agents = len(self.plan.agents)
        if self.session is None or not sender.isdecimal() or int(sender) >= agents or len(data) > LARGEST_MESSAGE:
            return
        try:
            message = decode(data)
        except MessageError:
            return
        if fits(message, agents, len(self.plan.events)):
            self.receive(int(sender), message)

    async def close(self) -> None:
        """Close the session."""
        session, self.session = self.session, None
        if session is not None:
            await asyncio.to_thread(session.close)
